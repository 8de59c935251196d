// A model plan is what programs need to know of a model: blocks and units as plain numbers, from the architecture
// alone. Pure; needs no weights.
#pragma once

#include "architecture/architecture.hpp"
#include "program/model_plan.hpp"

#include <cstdint>

namespace lockstep {

struct MicroBatchShape {
  std::int64_t samples = 0;  // B
  std::int64_t length = 0;   // T
};

/// Blocks with their stash, boundary and FLOPs on one micro-batch of `shape`, and the units that units_of
/// (architecture/units.hpp) gives, as model/model.hpp stores them. Local.
ModelPlan plan_of(const Architecture& architecture, const UnitTypes& types, const MicroBatchShape& shape,
                  std::int64_t bucket_bytes = 0);

}  // namespace lockstep
