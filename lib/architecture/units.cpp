#include "architecture/units.hpp"

#include "architecture/tensor_parallel.hpp"

#include <fmt/format.h>

#include <map>

namespace lockstep {

namespace {

std::vector<AxisName> alike(const LogicalTensor& tensor, int tensor_ranks) {
  return tensor_ranks == 1 || tensor.cut ? std::vector<AxisName>{} : std::vector<AxisName>{tensor_axis};
}

/// In the order of stored_tensors, each with the blocks that read it.
std::vector<ParameterPlan> parameters_of(const Architecture& architecture, int tensor_ranks) {
  std::vector<ParameterPlan> parameters;
  std::map<std::string, std::size_t> by_name;
  for (std::size_t block = 0; block < architecture.blocks.size(); ++block) {
    for (const LogicalTensor& tensor : architecture.blocks[block].tensors) {
      if (tensor.alias_of.empty()) {
        by_name[tensor.name] = parameters.size();
        parameters.push_back({tensor.name,
                              longest_part(tensor, tensor_ranks),
                              {static_cast<int>(block)},
                              tensor.trained,
                              tensor.unit,
                              alike(tensor, tensor_ranks)});
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

std::vector<UnitPlan> units_of(const Architecture& architecture, const UnitTypes& types, std::int64_t bucket_bytes,
                               const Sharding& sharding) {
  std::vector<std::string> names;
  for (const BlockDescription& block : architecture.blocks) names.push_back(block_name(block));
  return make_units(names, parameters_of(architecture, sharding.tensor_ranks), types, bucket_bytes, sharding);
}

}  // namespace lockstep
