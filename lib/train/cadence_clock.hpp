// Decides when a repeated action of a run is due: by steps, by epochs of its data, or by time. Steps and epochs are
// counted over the whole run, so a resumed run keeps the same points.
#pragma once

#include "config/values.hpp"
#include "data/sample_order.hpp"

#include <cstdint>

namespace lockstep {

/// Returns whether the action is due by steps or epochs after step `step` (counted from 1), whose samples lie between
/// the positions `before` and `after`. An epoch has `samples_per_epoch` samples. Due by time: CadenceClock. Pure.
bool due_after(const Cadence& cadence, std::int64_t step, DataPosition before, DataPosition after,
               std::int64_t samples_per_epoch);

/// Returns whether a delay from the beginning of the run is over after step `step`. Arguments as in due_after. Pure.
bool is_over(const Delay& delay, std::int64_t step, DataPosition after, std::int64_t samples_per_epoch);

/// CadenceClock decides on one rank when an action is due by time. Local.
class CadenceClock {
 public:
  CadenceClock(const Cadence& cadence, double now_s) : cadence_(cadence), last_s_(now_s) {}
  bool due(double now_s) const { return cadence_.time.value > 0 && now_s - last_s_ >= cadence_.time.value; }
  /// Replaces the cadence; the time still counts from the last action.
  void follow(const Cadence& cadence) { cadence_ = cadence; }
  /// Records that the action was done, for any reason.
  void done(double now_s) { last_s_ = now_s; }

 private:
  Cadence cadence_;
  double last_s_;
};

}  // namespace lockstep
