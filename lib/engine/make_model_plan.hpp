// A model plan is what programs need to know of a model: blocks and units as plain numbers, from the architecture
// alone. Pure; needs no weights.
#pragma once

#include "architecture/architecture.hpp"
#include "base/precision.hpp"
#include "program/model_plan.hpp"

#include <cstdint>

namespace lockstep {

struct MicroBatchShape {
  std::int64_t samples = 0;  // B
  std::int64_t length = 0;   // T
};

/// Blocks with their stash, boundary and FLOPs on one micro-batch of `shape`; one unit a block, as model/model.hpp
/// stores them. Local.
ModelPlan plan_of(const Architecture& architecture, Precision precision, const MicroBatchShape& shape);

}  // namespace lockstep
