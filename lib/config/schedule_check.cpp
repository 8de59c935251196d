#include "config/schedule_check.hpp"

#include "base/text.hpp"
#include "config/run_length.hpp"
#include "config/train_choices.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

namespace {

/// What schedules take of the options: what one does not take has no effect.
void check_schedule_takes(const ScheduleOptions& schedule, Problems& problems) {
  enum Takes : unsigned {
    decay = 1,
    floor = 2,
    cooldown = 4,
    shape = 8,
    constant_rate = 16,
    cycles = 32,
    power = 64,
    scale = 128
  };
  const auto taken = [&]() -> unsigned {
    switch (schedule.name) {
      case ScheduleName::constant: return 0;
      case ScheduleName::linear: return decay | floor;
      case ScheduleName::cosine: return decay | floor | cycles;
      case ScheduleName::polynomial: return decay | floor | power;
      case ScheduleName::inverse_sqrt: return floor | scale;
      case ScheduleName::wsd: return decay | floor | cooldown | shape;
      case ScheduleName::infinite: return decay | floor | cooldown | constant_rate;
    }
    return decay | floor;  // of a plug-in
  }();
  struct GivenOption {
    const char* option;
    Takes what;
    bool is_set;
    const char* none;
  };
  std::vector<std::string> moot, without;
  for (const GivenOption& given : {GivenOption{"schedule.decay_steps", decay, schedule.decay_steps.has_value(), "null"},
                                   {"schedule.decay_ratio", decay, schedule.decay_ratio.has_value(), "null"},
                                   {"schedule.min_lr", floor, schedule.min_lr != 0, "0"},
                                   {"schedule.cooldown_steps", cooldown, schedule.cooldown_steps.has_value(), "null"},
                                   {"schedule.cooldown_ratio", cooldown, schedule.cooldown_ratio.has_value(), "null"},
                                   {"schedule.cooldown_shape", shape, schedule.cooldown_shape.is_set(), "null"},
                                   {"schedule.constant_lr", constant_rate, schedule.constant_lr.has_value(), "null"},
                                   {"schedule.cycles", cycles, schedule.cycles.is_set(), "null"},
                                   {"schedule.power", power, schedule.power.is_set(), "null"},
                                   {"schedule.timescale", scale, schedule.timescale.has_value(), "null"}}) {
    if (!given.is_set || (taken & given.what) != 0) continue;
    moot.emplace_back(given.option);
    without.push_back(fmt::format(" --{} {}", given.option, given.none));
  }
  if (moot.empty()) return;
  const std::string name = OptionValue<ScheduleName>::to_json(schedule.name).get<std::string>();
  const std::string why =
      schedule.name == ScheduleName::constant ? "a constant schedule does not decay" : "schedule.name is " + name;
  problems.add({"schedule.name", moot.front()},
               fmt::format("{}, so that {} would have no effect: add{}", why, join(moot, " and "), join(without, "")));
}

/// The same thing is given in steps or as a part of the run.
void check_said_once(Problems& problems, const std::string& what, const std::string& steps_option,
                     std::optional<std::int64_t> steps, const std::string& ratio_option, std::optional<double> ratio) {
  if (steps && ratio)
    problems.add({steps_option, ratio_option}, fmt::format("{} {} and {} {} both set {}: leave one out", steps_option,
                                                           *steps, ratio_option, *ratio, what));
}

}  // namespace

void check_schedule(const TrainConfig& config, Problems& problems) {
  const ScheduleOptions& schedule = config.schedule;
  check_said_once(problems, "the length of the warm-up", "schedule.warmup_steps",
                  schedule.warmup_steps > 0 ? std::optional(schedule.warmup_steps) : std::nullopt,
                  "schedule.warmup_ratio", schedule.warmup_ratio);
  check_said_once(problems, "the end of the decay", "schedule.decay_steps", schedule.decay_steps,
                  "schedule.decay_ratio", schedule.decay_ratio);
  check_said_once(problems, "the length of the cooldown", "schedule.cooldown_steps", schedule.cooldown_steps,
                  "schedule.cooldown_ratio", schedule.cooldown_ratio);
  if (schedule.start_lr > 0 && schedule.warmup_steps == 0 && !schedule.warmup_ratio)
    problems.add({"schedule.start_lr", "schedule.warmup_steps"},
                 "schedule.start_lr has no effect: there is no warm-up (schedule.warmup_steps)");
  if (schedule.warmup_from != WarmupFrom::one && schedule.warmup_steps == 0 && !schedule.warmup_ratio)
    problems.add({"schedule.warmup_from", "schedule.warmup_steps"},
                 "schedule.warmup_from has no effect: there is no warm-up (schedule.warmup_steps)");
  if (schedule.start_lr > config.optimizer.lr)
    problems.add(
        {"schedule.start_lr", "optimizer.lr"},
        fmt::format("schedule.start_lr {} is above the peak, optimizer.lr {}", schedule.start_lr, config.optimizer.lr));
  if (config.train.max_steps) {
    const std::string contradiction = contradiction_of(schedule, length_of(config, *config.train.max_steps));
    const std::string end = schedule.decay_steps   ? "schedule.decay_steps"
                            : schedule.decay_ratio ? "schedule.decay_ratio"
                                                   : "train.max_steps";
    if (!contradiction.empty())
      problems.add({schedule.warmup_ratio ? "schedule.warmup_ratio" : "schedule.warmup_steps", end}, contradiction);
  }
  if (schedule.min_lr > config.optimizer.lr) {
    problems.add(
        {"schedule.min_lr", "optimizer.lr"},
        fmt::format("schedule.min_lr {} is above the peak, optimizer.lr {}", schedule.min_lr, config.optimizer.lr));
  }
  check_schedule_takes(schedule, problems);
  if (schedule.name == ScheduleName::wsd && !schedule.cooldown_steps && !schedule.cooldown_ratio)
    problems.add({"schedule.cooldown_steps", "schedule.cooldown_ratio"},
                 "schedule.name wsd needs schedule.cooldown_steps or schedule.cooldown_ratio: the length of the "
                 "final decay");
  if (schedule.name != ScheduleName::infinite) return;
  if (!schedule.constant_lr)
    problems.add({"schedule.constant_lr"},
                 "schedule.name infinite needs schedule.constant_lr: the learning rate after the decay");
  if (!schedule.decay_steps && !schedule.decay_ratio)
    problems.add({"schedule.decay_steps", "schedule.decay_ratio"},
                 "schedule.name infinite needs schedule.decay_steps or schedule.decay_ratio: when the decay to "
                 "schedule.constant_lr ends");
  if (schedule.constant_lr && (*schedule.constant_lr < schedule.min_lr || *schedule.constant_lr > config.optimizer.lr))
    problems.add({"schedule.constant_lr", "schedule.min_lr", "optimizer.lr"},
                 fmt::format("schedule.constant_lr {} is not between schedule.min_lr {} and optimizer.lr {}",
                             *schedule.constant_lr, schedule.min_lr, config.optimizer.lr));
  if ((schedule.cooldown_steps || schedule.cooldown_ratio) && schedule.min_lr == 0)
    problems.add({"schedule.min_lr", "schedule.cooldown_steps", "schedule.cooldown_ratio"},
                 "the cooldown of schedule.name infinite is exponential and never reaches 0: set "
                 "schedule.min_lr");
}

}  // namespace lockstep
