#include "config/log_check.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "config/option_rules.hpp"
#include "config/train_choices.hpp"
#include "options/option.hpp"
#include "report/device_peaks.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace lockstep {

namespace {

bool profiles_nothing(const TrainConfig& config) { return !config.profile && !config.log.profile_start_step; }

const std::vector<Rule>& log_rules() {
  static const std::vector<Rule> all{
      {{"log.tensorboard_dir", "log.tensorboard"},
       [](const TrainConfig& config) { return !config.log.tensorboard && config.log.tensorboard_dir; },
       "log.tensorboard_dir has no effect: log.tensorboard is false"},
      {{"log.wandb"},
       [](const TrainConfig& config) { return config.log.wandb == WandbMode::online; },
       "log.wandb online is not supported: use offline, and upload with wandb sync RUN/wandb/offline-run-*, "
       "also during the run"},
      {{"log.wandb_project"},
       [](const TrainConfig& config) { return config.log.wandb == WandbMode::off && config.log.wandb_project; },
       "log.wandb_project has no effect: log.wandb is off"},
      {{"log.wandb_name"},
       [](const TrainConfig& config) { return config.log.wandb == WandbMode::off && config.log.wandb_name; },
       "log.wandb_name has no effect: log.wandb is off"},
      {{"log.wandb_tags"},
       [](const TrainConfig& config) { return config.log.wandb == WandbMode::off && !config.log.wandb_tags.empty(); },
       "log.wandb_tags has no effect: log.wandb is off"},
      {{"log.wandb_every"},
       [](const TrainConfig& config) { return config.log.wandb == WandbMode::off && config.log.wandb_every; },
       "log.wandb_every has no effect: log.wandb is off"},
      {{"log.wandb_dir"},
       [](const TrainConfig& config) { return config.log.wandb == WandbMode::off && config.log.wandb_dir; },
       "log.wandb_dir has no effect: log.wandb is off"},
      {{"log.statistics_every", "log.statistics"},
       [](const TrainConfig& config) { return config.log.statistics.empty() && config.log.statistics_every; },
       "log.statistics_every has no effect: log.statistics is empty"},
      {{"log.profile_dir"},
       [](const TrainConfig& config) { return profiles_nothing(config) && config.log.profile_dir; },
       "log.profile_dir has no effect: no step is profiled without log.profile_start_step or --profile"},
      {{"log.profile_ranks"},
       [](const TrainConfig& config) { return profiles_nothing(config) && !config.log.profile_ranks.empty(); },
       "log.profile_ranks has no effect: no step is profiled without log.profile_start_step or --profile"},
      {{"log.profile_shapes"},
       [](const TrainConfig& config) { return profiles_nothing(config) && config.log.profile_shapes; },
       "log.profile_shapes has no effect: no step is profiled without log.profile_start_step or --profile"},
      {{"log.profile_memory"},
       [](const TrainConfig& config) { return profiles_nothing(config) && config.log.profile_memory; },
       "log.profile_memory has no effect: no step is profiled without log.profile_start_step or --profile"},
      {{"log.profile_start_step", "log.profile_end_step"},
       [](const TrainConfig& config) { return config.log.profile_end_step && !config.log.profile_start_step; },
       "log.profile_end_step has no effect without log.profile_start_step"},
      {{"profile", "log.profile_start_step"},
       [](const TrainConfig& config) { return config.profile && config.log.profile_start_step; },
       "--profile and log.profile_start_step both set the steps to profile: leave one out"},
  };
  return all;
}

void check_wandb(const LogOptions& log, Problems& problems) {
  const bool by_steps_alone = log.every.steps > 0 && log.every == Cadence{.steps = log.every.steps};
  if (log.wandb == WandbMode::off || !log.wandb_every || !by_steps_alone) return;
  if (*log.wandb_every % log.every.steps != 0)
    problems.add({"log.wandb_every", "log.every"},
                 fmt::format("log.wandb_every {} is not a multiple of log.every {}: other steps have no records",
                             *log.wandb_every, log.every.steps));
}

void check_statistics(const LogOptions& log, Problems& problems) {
  if (!log.statistics.empty() && !log.statistics_every.value_or(log.every))
    problems.add({"log.statistics", log.statistics_every ? "log.statistics_every" : "log.every"},
                 fmt::format("log.statistics has no effect: {} is never",
                             log.statistics_every ? "log.statistics_every" : "log.every"));
}

/// ": did you mean A, B or C?" after the name of a device that is not known; ";" if none has a similar name.
std::string question_after(const std::string& name) {
  const std::vector<std::string_view> similar = similar_devices(name);
  if (similar.empty()) return ";";
  std::string names;
  for (const std::string_view& one : similar)
    names += fmt::format("{}{}", &one == &similar.front() ? "" : &one == &similar.back() ? " or " : ", ", one);
  return fmt::format(": did you mean {}?", names);
}

void check_peak(const TrainConfig& config, Problems& problems) {
  const LogOptions& log = config.log;
  if (config.utilization.is_set() && !log.peak_tflops && !log.peak_device)
    problems.add({"utilization", "log.peak_tflops", "log.peak_device"},
                 "--utilization has no effect: without log.peak_tflops or log.peak_device, hours are not planned");
  if (!log.peak_device) return;
  const DevicePeaks* const device = find_device(*log.peak_device);
  if (device == nullptr) {
    problems.add({"log.peak_device"},
                 fmt::format("the device '{}' is not known{} lockstep-performance(7) lists the names; another device "
                             "needs log.peak_tflops, and for a plan the name of one with as much memory",
                             *log.peak_device, question_after(*log.peak_device)));
  } else if (!log.peak_tflops && !device->of(config.precision.dtype)) {
    problems.add({"log.peak_device", "precision.dtype"},
                 fmt::format("the maker of {} publishes no peak in {}: set log.peak_tflops", device->name,
                             choice_name(config.precision.dtype)));
  }
}

void check_profile(const TrainConfig& config, Problems& problems) {
  constexpr std::int64_t most_steps = 1000;  // the times of every action of every rank are kept until the last
  const LogOptions& log = config.log;
  const std::optional<std::int64_t>& start = log.profile_start_step;
  const std::optional<std::int64_t>& end = log.profile_end_step;
  const std::vector<std::string> both{"log.profile_start_step", "log.profile_end_step"};
  if (config.profile && *config.profile > most_steps)
    problems.add({"profile"}, fmt::format("a profile covers at most {} steps, not {}", most_steps, *config.profile));
  if (!start || !end) return;
  if (*end < *start) {
    problems.add(both, fmt::format("log.profile_end_step {} is before log.profile_start_step {}", *end, *start));
  } else if (*end - *start >= most_steps) {
    problems.add(both, fmt::format("a profile covers at most {} steps, not {} to {}", most_steps, *start, *end));
  }
}

}  // namespace

void check_log(const TrainConfig& config, Problems& problems) {
  check_rules(log_rules(), config, problems);
  check_wandb(config.log, problems);
  check_statistics(config.log, problems);
  check_peak(config, problems);
  check_profile(config, problems);
}

std::optional<double> peak_flops_per_s(const TrainConfig& config) {
  const LogOptions& log = config.log;
  const DevicePeaks* const device = log.peak_device ? find_device(*log.peak_device) : nullptr;
  const std::optional<double> tflops =
      log.peak_tflops || device == nullptr ? log.peak_tflops : device->of(config.precision.dtype);
  return tflops ? std::optional(*tflops * 1e12) : std::nullopt;
}

std::optional<ProfiledSteps> profiled_steps(const TrainConfig& config, std::int64_t done) {
  constexpr std::int64_t warming_up = 2;
  if (config.profile) return ProfiledSteps{done + warming_up + 1, done + warming_up + *config.profile};
  const auto& start = config.log.profile_start_step;
  if (!start) return std::nullopt;
  return ProfiledSteps{*start, config.log.profile_end_step.value_or(*start)};
}

}  // namespace lockstep
