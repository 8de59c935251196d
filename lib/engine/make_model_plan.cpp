#include "engine/make_model_plan.hpp"

#include "architecture/block_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

namespace lockstep {

namespace {

/// As model/model.hpp names its units.
std::string block_name(const BlockDescription& block) {
  switch (block.kind) {
    case BlockDescription::Kind::embedding: return "embedding";
    case BlockDescription::Kind::head: return "head";
    case BlockDescription::Kind::decoder: break;
  }
  return fmt::format("layer.{}", block.layer);
}

/// The types that tensor/number_types.hpp gives a run, in the project's vocabulary.
UnitTypes unit_types(Precision precision) {
  switch (precision) {
    case Precision::fp64: return {.master = DType::f64, .compute = DType::f64};
    case Precision::bf16: return {.master = DType::f32, .compute = DType::bf16};
    case Precision::fp32: break;
  }
  return {.master = DType::f32, .compute = DType::f32};
}

/// Activations inside blocks have the compute type; what passes between blocks has the master type.
BatchShape inner_shape(const MicroBatchShape& shape, Precision precision) {
  return {.samples = shape.samples, .length = shape.length, .stream = unit_types(precision).compute};
}

}  // namespace

ModelPlan plan_of(const Architecture& architecture, Precision precision, const MicroBatchShape& shape) {
  ModelPlan plan;
  std::vector<ParameterPlan> parameters;
  std::map<std::string, std::size_t> by_name;
  const UnitTypes types = unit_types(precision);
  const std::int64_t boundary_bytes =
      shape.samples * shape.length * architecture.config.channels * size_of(types.master);
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i) {
    const BlockDescription& block = architecture.blocks[i];
    const BlockProfile costs = profile(architecture, i, inner_shape(shape, precision));
    const bool last = i + 1 == architecture.blocks.size();
    plan.blocks.push_back({.name = block_name(block),
                           .stash_bytes = std::max<std::int64_t>(costs.saved_bytes - costs.input_bytes, 0),
                           .output_bytes = last ? 0 : boundary_bytes,
                           .workspace_bytes = costs.workspace_bytes,
                           .forward_flops = costs.forward_flops,
                           .backward_flops = costs.backward_input_flops + costs.backward_weight_flops,
                           .recomputable = block.kind == BlockDescription::Kind::decoder});
    for (const LogicalTensor& tensor : block.tensors) {
      if (tensor.alias_of.empty()) {
        by_name[tensor.name] = parameters.size();
        parameters.push_back(
            {.name = tensor.name, .elements = elements(tensor.shape), .blocks = {static_cast<int>(i)}});
      } else {
        parameters[by_name.at(tensor.alias_of)].blocks.push_back(static_cast<int>(i));
      }
    }
  }
  plan.units = make_units(plan.blocks, parameters, types, 0);
  return plan;
}

}  // namespace lockstep
