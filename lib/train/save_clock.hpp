// Decides when a save is due by time, as checkpoint.every or checkpoint.interval says: at a fixed interval, or at the
// interval with the least total cost of saves and lost work.
#pragma once

#include "config/train_config.hpp"

#include <optional>

namespace lockstep {

/// Returns the time between saves, each of `cost_s`, that loses least with a failure every `mtbf_s` on average, after
/// J. T. Daly ("A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006); never
/// shorter than a save. Pure.
double least_loss_interval(double cost_s, double mtbf_s);

/// SaveClock is the clock of one rank. Local.
class SaveClock {
 public:
  /// Starts at `now_s`. An automatic interval needs the cost of a save, so the first save is due after five minutes.
  SaveClock(const CheckpointOptions& options, double now_s);
  /// Replaces the options; the time still counts from the last save.
  void follow(const CheckpointOptions& options);
  /// Returns whether a save is due; false if no save is due by time.
  bool due(double now_s) const;
  /// Records that a save has ended, for any reason, successfully or not.
  void save_ended(double seconds, double now_s);

 private:
  double interval_s() const;

  std::optional<SaveInterval> interval_;
  double mtbf_s_;
  double last_s_;
  double longest_save_s_ = 0;
};

}  // namespace lockstep
