#include "engine/make_model_plan.hpp"

#include "architecture/block_profile.hpp"
#include "architecture/units.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Activations inside blocks have the compute type; what passes between blocks has the master type.
BatchShape inner_shape(const MicroBatchShape& shape, const UnitTypes& types) {
  return {.samples = shape.samples, .length = shape.length, .stream = types.compute};
}

}  // namespace

ModelPlan plan_of(const Architecture& architecture, const UnitTypes& types, const MicroBatchShape& shape,
                  std::int64_t bucket_bytes) {
  ModelPlan plan;
  const std::int64_t boundary_bytes =
      shape.samples * shape.length * architecture.config.channels * size_of(types.master);
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    const BlockDescription& block = architecture.blocks[i];
    const BlockProfile costs = profile(architecture, i, inner_shape(shape, types));
    const bool last = i + 1 == architecture.blocks.size();
    plan.blocks.push_back({.name = block_name(block),
                           .stash_bytes = std::max<std::int64_t>(costs.saved_bytes - costs.input_bytes, 0),
                           .output_bytes = last ? 0 : boundary_bytes,
                           .workspace_bytes = costs.workspace_bytes,
                           .forward_flops = costs.forward_flops,
                           .backward_flops = costs.backward_input_flops + costs.backward_weight_flops,
                           .recomputable = block.kind == BlockDescription::Kind::decoder});
  }
  plan.units = units_of(architecture, types, bucket_bytes);
  return plan;
}

}  // namespace lockstep
