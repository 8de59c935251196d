// Speed and progress of a run: what step records and the summary say of time. Performance definitions: tokens per
// second counts labels that the optimizer trained on; model FLOPs of a token are 6N + 12·L·H·D·T
// (architecture/architecture.hpp); mfu divides by the stated peak.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

class Meter {
 public:
  struct Settings {
    std::int64_t last_step = 0;  // steps of the whole run
    double flops_per_token = 0;
    std::optional<double> peak_flops_per_s;  // of all ranks together; absent: mfu is not known
    std::int64_t speed_from_step = 1;        // of those counted, from 1: the first that is part of the speed
  };
  struct Reading {
    double step_ms = 0;       // mean over the steps since the last reading
    double data_wait_ms = 0;  // the same, of what count() was told
    double tokens_per_s = 0;
    std::optional<double> mfu;
    std::optional<double> eta_s;
  };
  /// From settings.speed_from_step to the last step that was counted, without the time that is no step's.
  struct Speed {
    double steps_per_s = 0;
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double flops_per_s = 0;
    std::optional<double> mfu;
  };
  /// `now_s` of a clock that never goes back.
  Meter(const Settings& settings, double now_s) : settings_(settings), since_s_(now_s), speed_since_s_(now_s) {}

  /// A step of so many samples and labels, which waited so long for its batch, has ended. Local.
  void count(double now_s, std::int64_t samples, std::int64_t tokens, double data_wait_s);
  /// Time that is no step's: evaluation, saving, generation. Local.
  void exclude(double seconds) {
    excluded_s_ += seconds;
    excluded_since_step_s_ += seconds;
  }
  /// What happened since the last reading, after `steps_done` steps of the run; starts a new interval. Local.
  Reading read(double now_s, std::int64_t steps_done);
  /// Nothing where no step counts for it. Local.
  std::optional<Speed> speed() const;
  std::int64_t samples() const { return samples_; }

 private:
  Settings settings_;
  double since_s_ = 0;
  double excluded_s_ = 0;
  double data_wait_s_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t tokens_ = 0;

  double speed_since_s_;         // behind the step before the first that counts
  double speed_s_ = 0;           // until the last step
  double speed_excluded_s_ = 0;  // of that
  double excluded_since_step_s_ = 0;
  std::int64_t steps_counted_ = 0;  // all of them
  std::int64_t samples_ = 0;
  std::int64_t speed_samples_ = 0;  // of those that count
  std::int64_t speed_tokens_ = 0;
};

}  // namespace lockstep
