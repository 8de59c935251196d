// When a save is due by time, as checkpoint.every or checkpoint.interval says: at a fixed interval, or at that at which
// saves and lost work cost least together.
#pragma once

#include "config/train_config.hpp"

#include <optional>

namespace lockstep {

/// The time between saves, each of `cost_s`, that loses least with a failure every `mtbf_s` on average, as J. T. Daly
/// estimates it ("A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006); never
/// shorter than a save. Pure.
double least_loss_interval(double cost_s, double mtbf_s);

/// The clock of one rank. Local.
class SaveClock {
 public:
  /// Starts at `now_s`. What an automatic interval goes by is not known before the first save, which is due after five
  /// minutes.
  SaveClock(const CheckpointOptions& options, double now_s);
  /// From now on other options count; time goes on from the last save.
  void follow(const CheckpointOptions& options);
  /// False where nothing is due by time.
  bool due(double now_s) const;
  /// A save of any reason, sound or failed, has ended.
  void save_ended(double seconds, double now_s);

 private:
  double interval_s() const;

  std::optional<SaveInterval> interval_;
  double mtbf_s_;
  double last_s_;
  double longest_save_s_ = 0;
};

}  // namespace lockstep
