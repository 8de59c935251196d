// Speed and progress of a run, for step records and the summary. Definitions: tokens per second count the labels that
// the optimizer trained on; model FLOPs of a token are 6N + 12·L·H·D·T (architecture/architecture.hpp); mfu divides by
// the stated peak.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

/// TimedSteps are steps that count for a speed, with their time, without the time of evaluations and saves.
struct TimedSteps {
  std::int64_t steps = 0;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
  std::optional<double> peak_flops;  // of all ranks in that time; not set: not known
  bool operator==(const TimedSteps&) const = default;
};
/// Returns the steps of two starts of a run, on machines that may differ. Pure.
TimedSteps operator+(const TimedSteps& a, const TimedSteps& b);

class Meter {
 public:
  struct Settings {
    std::int64_t last_step = 0;  // steps of the whole run
    double flops_per_token = 0;
    std::optional<double> peak_flops_per_s;  // of all ranks together; not set: mfu is not known
    // the first counted step (from 1) that is part of the speed
    std::int64_t speed_from_step = 1;
  };
  struct Reading {
    double step_ms = 0;  // mean over the steps since the last reading
    double samples_per_s = 0;
    double data_wait_ms = 0;  // mean of the waits passed to count()
    double tokens_per_s = 0;
    std::optional<double> mfu;
    std::optional<double> eta_s;
  };
  struct Speed {
    double steps_per_s = 0;
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double flops_per_s = 0;
    std::optional<double> mfu;
  };
  /// `now_s` is from a clock that never goes back.
  Meter(const Settings& settings, double now_s) : settings_(settings), since_s_(now_s), speed_since_s_(now_s) {}

  /// Counts a step that has ended, with its samples, its labels, and the wait for its batch. Local.
  void count(double now_s, std::int64_t samples, std::int64_t tokens, double data_wait_s);
  /// Excludes time outside of steps: evaluation, saving, generation. Local.
  void exclude(double seconds) {
    excluded_s_ += seconds;
    excluded_since_step_s_ += seconds;
  }
  /// Returns the speed since the last reading, after `steps_done` steps of the run, and starts a new interval. Local.
  Reading read(double now_s, std::int64_t steps_done);
  /// Returns the steps from settings.speed_from_step to the last counted one. Local.
  TimedSteps timed() const;
  /// Returns the speed of such steps, perhaps of several starts; nothing if there are none. Local.
  std::optional<Speed> speed_of(const TimedSteps& timed) const;
  std::optional<Speed> speed() const { return speed_of(timed()); }
  std::int64_t samples() const { return samples_; }

 private:
  Settings settings_;
  double since_s_ = 0;
  double excluded_s_ = 0;
  double data_wait_s_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t samples_read_ = 0;  // samples_ at the last reading
  std::int64_t tokens_ = 0;

  double speed_since_s_;         // end of the step before the first one in the speed
  double speed_s_ = 0;           // from there to the end of the last step
  double speed_excluded_s_ = 0;  // excluded time within speed_s_
  double excluded_since_step_s_ = 0;
  std::int64_t steps_counted_ = 0;  // all steps
  std::int64_t samples_ = 0;
  std::int64_t speed_samples_ = 0;  // of the steps in the speed
  std::int64_t speed_tokens_ = 0;
};

}  // namespace lockstep
