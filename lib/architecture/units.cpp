#include "architecture/units.hpp"

#include "architecture/tensor_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

bool among(const std::vector<AxisName>& axes, const AxisName& axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

/// Axes of ranks that share blocks along which all have the same of a tensor, and equal gradients.
std::vector<AxisName> alike_along(const LogicalTensor& tensor, const BlockSharing& sharing) {
  std::vector<AxisName> axes;
  if (is_shared_out(tensor, sharing)) return axes;
  for (const AxisName& axis : sharing.axes())
    if (!(tensor.cut && among(tensor.cut->axes, axis)) && !among(tensor.summed, axis)) axes.push_back(axis);
  return axes;
}

/// In the order of stored_tensors, each with the blocks that read it.
std::vector<ParameterPlan> parameters_of(const Architecture& architecture, const BlockSharing& sharing) {
  std::vector<ParameterPlan> parameters;
  std::map<std::string, std::size_t> by_name;
  for (std::size_t block = 0; block < architecture.blocks.size(); ++block) {
    for (const LogicalTensor& tensor : architecture.blocks[block].tensors) {
      if (tensor.alias_of.empty()) {
        by_name[tensor.name] = parameters.size();
        const bool shared_out = is_shared_out(tensor, sharing);
        const Shape matrix = tensor.update_needs == UpdateNeeds::parts ? Shape{}
                             : tensor.shape.size() < 2                 ? tensor.shape
                                                                       : matrix_shape(tensor);
        const std::int64_t held = elements(shared_out ? longest_part(tensor, sharing) : tensor.shape);
        parameters.push_back({.name = tensor.name,
                              .shape = longest_part(tensor, sharing),
                              .blocks = {static_cast<int>(block)},
                              .trained = tensor.trained,
                              .unit = tensor.unit,
                              .alike = alike_along(tensor, sharing),
                              .summed = tensor.summed,
                              .of_experts = shared_out,
                              .update = tensor.update,
                              .needs = tensor.update_needs,
                              .matrix = matrix,
                              .matrices = matrix.empty() ? 0 : held / elements(matrix),
                              .row_multiple = tensor.row_multiple});
      } else {
        parameters[by_name.at(tensor.alias_of)].blocks.push_back(static_cast<int>(block));
      }
    }
  }
  return parameters;
}

}  // namespace

std::string block_name(const BlockDescription& block) {
  switch (block.kind) {
    case BlockDescription::Kind::embedding: return "embedding";
    case BlockDescription::Kind::head: return "head";
    case BlockDescription::Kind::decoder: break;
  }
  return fmt::format("layer.{}", block.layer);
}

Shape state_shape(const StateDescription& state, const LogicalTensor& tensor) {
  if (state.of == StateShape::elements) return tensor.shape;
  const Shape matrix = matrix_shape(tensor);
  const std::int64_t kept = matrix[state.of == StateShape::rows ? 0 : 1];
  return tensor.matrix_rows == 0 ? Shape{kept} : Shape{tensor.shape[0] / matrix[0], kept};
}

Layout state_layout(const StateDescription& state, const Layout& weights, const LogicalTensor& tensor) {
  return state.of == StateShape::elements ? like(weights, state.dtype)
                                          : matrix_state_layout(weights, state_shape(state, tensor), state.dtype);
}

std::vector<UnitPlan> units_of(const Architecture& architecture, const UnitTypes& types, const Buckets& buckets,
                               const Sharding& sharding) {
  std::vector<std::string> names;
  for (const BlockDescription& block : architecture.blocks) names.push_back(block_name(block));
  return make_units(names, parameters_of(architecture, sharding.blocks), types, buckets, sharding);
}

}  // namespace lockstep
