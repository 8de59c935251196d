#include "train/cadence_clock.hpp"

#include "base/decimal.hpp"

namespace lockstep {

namespace {

/// The parts of an epoch that are full at a position.
std::int64_t parts_full(DataPosition position, double part, std::int64_t samples_per_epoch) {
  return parts_in(position.epoch * samples_per_epoch + position.sample, Decimal::nearest(part), samples_per_epoch);
}

}  // namespace

bool due_after(const Cadence& cadence, std::int64_t step, DataPosition before, DataPosition after,
               std::int64_t samples_per_epoch) {
  if (cadence.steps > 0 && step % cadence.steps == 0) return true;
  return cadence.epochs > 0 &&
         parts_full(after, cadence.epochs, samples_per_epoch) > parts_full(before, cadence.epochs, samples_per_epoch);
}

bool is_over(const Delay& delay, std::int64_t step, DataPosition after, std::int64_t samples_per_epoch) {
  return step >= delay.steps && (delay.epochs == 0 || parts_full(after, delay.epochs, samples_per_epoch) > 0);
}

}  // namespace lockstep
