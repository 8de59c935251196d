#include "train/cadence_clock.hpp"

#include "base/decimal.hpp"

namespace lockstep {

bool due_after(const Cadence& cadence, std::int64_t step, DataPosition before, DataPosition after,
               std::int64_t samples_per_epoch) {
  const auto parts_full = [&](DataPosition position) {
    return parts_in(position.epoch * samples_per_epoch + position.sample, Decimal::nearest(cadence.epochs),
                    samples_per_epoch);
  };
  switch (cadence.unit) {
    case Cadence::Unit::steps: return step % cadence.steps == 0;
    case Cadence::Unit::epochs: return parts_full(after) > parts_full(before);
    case Cadence::Unit::time:
    case Cadence::Unit::never: return false;
  }
  return false;
}

}  // namespace lockstep
