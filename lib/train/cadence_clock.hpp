// When something is due that a run does again and again: by its steps, by the epochs of its data, or by time. Steps and
// epochs are those of the whole run, so that one that goes on keeps to its places.
#pragma once

#include "config/values.hpp"
#include "data/sample_order.hpp"

#include <cstdint>

namespace lockstep {

/// Whether it is due after step `step` (counted from 1), which took the samples from `before` to `after` of epochs of
/// so many; by time it never is. Pure.
bool due_after(const Cadence& cadence, std::int64_t step, DataPosition before, DataPosition after,
               std::int64_t samples_per_epoch);

/// Whether a wait from the begin of the run is over after step `step`, as the others. Pure.
bool is_over(const Delay& delay, std::int64_t step, DataPosition after, std::int64_t samples_per_epoch);

/// When it is due by time, on one rank. Local.
class CadenceClock {
 public:
  CadenceClock(const Cadence& cadence, double now_s) : cadence_(cadence), last_s_(now_s) {}
  bool due(double now_s) const { return cadence_.time.value > 0 && now_s - last_s_ >= cadence_.time.value; }
  /// From now on another one counts; time goes on from when it was done last.
  void follow(const Cadence& cadence) { cadence_ = cadence; }
  /// It was done, for whatever reason.
  void done(double now_s) { last_s_ = now_s; }

 private:
  Cadence cadence_;
  double last_s_;
};

}  // namespace lockstep
