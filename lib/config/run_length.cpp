#include "config/run_length.hpp"

#include "base/decimal.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/rounding.hpp"
#include "base/words.hpp"
#include "options/ranges.hpp"

namespace lockstep {

std::int64_t steps_per_epoch(std::int64_t global_batch, std::int64_t samples_per_epoch) {
  return ceil_div(samples_per_epoch, global_batch);
}

std::int64_t steps_of(const TrainConfig& config, std::int64_t global_batch, std::int64_t samples_per_epoch) {
  if (config.train.max_steps) return *config.train.max_steps;
  invariant(config.train.epochs.has_value(), "a run needs train.max_steps or train.epochs");
  const double epochs = *config.train.epochs;
  const std::int64_t steps = config.data.short_last_step
                                 ? part_up(Decimal::nearest(epochs), steps_per_epoch(global_batch, samples_per_epoch))
                                 : part_up(Decimal::nearest(epochs), samples_per_epoch, global_batch);
  if (static_cast<double>(steps) > most_count)
    throw Error(ExitCode::usage,
                fmt::format("train.epochs {} of {} in steps of {} are {}, more than the limit of {:.0f}", epochs,
                            counted(samples_per_epoch, "sample"), global_batch, counted(steps, "step"), most_count),
                "fewer epochs, or a larger global batch");
  return steps;
}

RunLength length_of(const TrainConfig& config, std::int64_t steps) {
  const ScheduleOptions& schedule = config.schedule;
  const auto part = [&](const std::optional<double>& ratio, std::int64_t otherwise) {
    return ratio ? part_up(Decimal::nearest(*ratio), steps) : otherwise;
  };
  return {.steps = steps,
          .warmup_steps = part(schedule.warmup_ratio, schedule.warmup_steps),
          .decay_steps = part(schedule.decay_ratio, schedule.decay_steps.value_or(steps)),
          .cooldown_steps = part(schedule.cooldown_ratio, schedule.cooldown_steps.value_or(0))};
}

std::int64_t steps_before_cooldown(ScheduleName schedule, const RunLength& length) {
  if (schedule == ScheduleName::wsd) return length.decay_steps - length.cooldown_steps;
  if (schedule == ScheduleName::infinite) return length.steps - length.cooldown_steps;
  return length.steps;
}

std::string contradiction_of(const ScheduleOptions& schedule, const RunLength& length) {
  if (schedule.name == ScheduleName::constant || schedule.name == ScheduleName::inverse_sqrt) return {};
  const std::int64_t cooldown = steps_before_cooldown(schedule.name, length);
  if (schedule.name == ScheduleName::wsd && length.warmup_steps > cooldown)
    return fmt::format("warm-up takes {}, but the cooldown begins after step {}: {} before step {}",
                       counted(length.warmup_steps, "step"), cooldown, counted(length.cooldown_steps, "step"),
                       length.decay_steps);
  if (schedule.name == ScheduleName::infinite && length.decay_steps > cooldown)
    return fmt::format("the decay ends at step {}, but the cooldown begins after step {}: {} before step {}",
                       length.decay_steps, cooldown, counted(length.cooldown_steps, "step"), length.steps);
  if (length.warmup_steps <= length.decay_steps) return {};
  return fmt::format("warm-up takes {}, but the decay ends at step {}", counted(length.warmup_steps, "step"),
                     length.decay_steps);
}

std::optional<std::int64_t> configured_samples_per_rank(const TrainConfig& config) {
  const TrainOptions& train = config.train;
  if (train.global_batch || !train.micro_batch || !train.accumulation) return std::nullopt;
  return *train.micro_batch * *train.accumulation * config.parallel.micro_batches.value_or(1);
}

std::string to_text(const ResolvedRun& run) {
  Json json{{"global_batch", run.global_batch},
            {"configured_samples_per_rank", nullptr},
            {"steps", run.length.steps},
            {"warmup_steps", run.length.warmup_steps},
            {"decay_steps", run.length.decay_steps},
            {"cooldown_steps", run.length.cooldown_steps}};
  if (run.configured_samples_per_rank) json["configured_samples_per_rank"] = *run.configured_samples_per_rank;
  if (run.seed) json["seed"] = *run.seed;
  if (run.pad_to_multiple_of) json["pad_to_multiple_of"] = *run.pad_to_multiple_of;
  if (run.epoch_multiple) json["epoch_multiple"] = *run.epoch_multiple;
  return to_text(json);
}

ResolvedRun parse_resolved(const std::string& text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  const auto number = [&](const char* key) {
    if (!json.is_object() || !json.contains(key)) fail(ExitCode::input, "{}: {} is missing", origin, key);
    return integer_from<std::int64_t>(json.at(key), key);
  };
  ResolvedRun run{.global_batch = number("global_batch"),
                  .configured_samples_per_rank = {},
                  .length = {number("steps"), number("warmup_steps"), number("decay_steps"), number("cooldown_steps")}};
  if (json.contains("configured_samples_per_rank") && !json.at("configured_samples_per_rank").is_null())
    run.configured_samples_per_rank = number("configured_samples_per_rank");
  if (json.contains("seed")) run.seed = number("seed");
  if (json.contains("pad_to_multiple_of")) run.pad_to_multiple_of = number("pad_to_multiple_of");
  if (json.contains("epoch_multiple")) run.epoch_multiple = number("epoch_multiple");
  return run;
}

}  // namespace lockstep
