#include "program/model_plan.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "base/text.hpp"
#include "layout/matrix_owners.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace lockstep {

namespace {

/// Parameters that may be of one unit.
struct Kind {
  bool trained = true, of_experts = false;
  int update = 0;
  std::string unit;
  std::vector<AxisName> alike, summed;
  bool operator==(const Kind&) const = default;
};

Kind kind_of(const ParameterPlan& parameter) {
  return {parameter.trained, parameter.of_experts, parameter.trained ? parameter.update : 0,
          parameter.unit,    parameter.alike,      parameter.summed};
}

/// Axes along which ranks have parts of the same matrices of a unit, and how many ranks these are.
std::pair<std::vector<AxisName>, int> holders_of_parts(const UnitPlan& unit, const Sharding& sharding,
                                                       bool of_experts) {
  std::vector<AxisName> axes = unit.shard_axes;
  int ranks = sharding.shards;
  if (of_experts) return {axes, ranks};
  const auto among = [](const std::vector<AxisName>& all, const AxisName& axis) {
    return std::ranges::find(all, axis) != all.end();
  };
  for (const AxisName& axis : sharding.blocks.axes()) {
    if (among(unit.alike, axis) || among(unit.summed, axis)) continue;
    axes.push_back(axis);
    const int replicas = sharding.blocks.key_replicas;
    ranks *= axis == tensor_axis ? sharding.blocks.ranks / replicas : replicas;
  }
  return {axes, ranks};
}

/// What ranks say while they update a unit.
std::vector<BlockExchange> update_exchanges_of(const UnitPlan& unit, const std::vector<ParameterPlan>& parameters,
                                               const UnitTypes& types, const Sharding& sharding, bool of_experts) {
  const auto [axes, ranks] = holders_of_parts(unit, sharding, of_experts);
  if (ranks == 1 || unit.parameters.empty()) return {};
  std::vector<Shape> matrices;
  std::int64_t parts = 0;
  UpdateSums sums;
  for (const int index : unit.parameters) {
    const ParameterPlan& parameter = parameters[static_cast<std::size_t>(index)];
    matrices.insert(matrices.end(), static_cast<std::size_t>(parameter.matrices), parameter.matrix);
    parts += elements(longest_shard(parameter.shape, sharding.shards));
  }
  for (const Shape& matrix : matrices) {
    sums.first += update_sums(matrix).first;
    sums.second += update_sums(matrix).second;
  }
  const auto exchange = [&along = axes](BlockExchange::Kind kind, DType dtype, std::int64_t elements) {
    return BlockExchange{.kind = kind,
                         .axes = along,
                         .dtype = dtype,
                         .row_bytes = elements * size_of(dtype),
                         .rows = 1,
                         .at_most = kind == BlockExchange::Kind::all_to_all};
  };
  switch (parameters[static_cast<std::size_t>(unit.parameters.front())].needs) {
    case UpdateNeeds::parts: return {};
    case UpdateNeeds::matrices:
      return {exchange(BlockExchange::Kind::all_to_all, types.master, parts),
              exchange(BlockExchange::Kind::all_to_all, types.master, most_owned(matrices, ranks))};
    case UpdateNeeds::sums: {
      std::vector<BlockExchange> said{exchange(BlockExchange::Kind::all_reduce, DType::f64, sums.first)};
      if (sums.second > 0) said.push_back(exchange(BlockExchange::Kind::all_reduce, DType::f64, sums.second));
      return said;
    }
  }
  fail(ExitCode::bug, "unknown UpdateNeeds of unit {}", unit.name);
}

/// Elements of a unit's buffer for what an optimizer keeps.
std::int64_t state_elements(const StateDescription& state, const UnitPlan& unit,
                            const std::vector<ParameterPlan>& parameters, DType master) {
  if (state.of == StateShape::elements) return unit.shard_elements;
  std::vector<std::int64_t> kept;
  for (const int index : unit.parameters) {
    const ParameterPlan& parameter = parameters[static_cast<std::size_t>(index)];
    kept.push_back(parameter.matrices * parameter.matrix.at(state.of == StateShape::rows ? 0 : 1));
  }
  return unit_offsets(kept, master).back();
}

/// The unit of the parameters of a kind of the blocks [first, last].
UnitPlan unit_of(const std::vector<std::string>& blocks, const std::vector<ParameterPlan>& parameters,
                 const UnitTypes& types, const Sharding& sharding, const Kind& kind, int first, int last) {
  UnitPlan unit;
  const auto name = [&](int block) { return blocks[static_cast<std::size_t>(block)]; };
  const auto plan_of = [&](int index) -> const ParameterPlan& { return parameters[static_cast<std::size_t>(index)]; };
  unit.name = first == last ? name(first) : fmt::format("{}..{}", name(first), name(last));
  if (!kind.unit.empty()) unit.name += ":" + kind.unit;
  if (kind.of_experts) unit.name += ", experts";
  if (!kind.alike.empty()) unit.name += ", alike";
  if (!kind.summed.empty()) unit.name += ", summed over " + join(kind.summed, "+");
  if (kind.update > 0) unit.name += fmt::format(", update {}", kind.update);
  if (!kind.trained) unit.name += ", frozen";
  unit.trained = kind.trained;
  unit.alike = kind.alike;
  unit.summed = kind.summed;
  if (kind.of_experts) unit.token_axes = {expert_replica_axis, expert_shard_axis};
  std::vector<std::int64_t> whole, shard, kept;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterPlan& parameter = parameters[i];
    if (parameter.blocks.front() < first || parameter.blocks.front() > last) continue;
    if (kind_of(parameter) != kind) continue;
    unit.parameters.push_back(static_cast<int>(i));
    unit.blocks.insert(unit.blocks.end(), parameter.blocks.begin(), parameter.blocks.end());
  }
  std::ranges::stable_partition(unit.parameters, [&](int index) { return plan_of(index).row_multiple == 0; });
  for (const int index : unit.parameters) {
    const Shape& shape = plan_of(index).shape;
    whole.push_back(elements(shape));
    shard.push_back(elements(longest_shard(shape, sharding.shards)));
    kept.push_back(elements(longest_shard(shape, sharding.kept_shards)));
  }
  std::sort(unit.blocks.begin(), unit.blocks.end());
  unit.blocks.erase(std::unique(unit.blocks.begin(), unit.blocks.end()), unit.blocks.end());
  const std::int64_t master = size_of(types.master), compute = size_of(types.compute);
  const std::vector<std::int64_t> offsets = unit_offsets(whole, types.master);
  unit.elements = offsets.back();
  if (!unit.parameters.empty())
    unit.padding =
        unit_padding(offsets, plan_of(unit.parameters.back()).shape, plan_of(unit.parameters.back()).row_multiple);
  unit.shard_elements = unit_offsets(shard, types.master).back();
  unit.master_bytes = unit.shard_elements * size_of(types.kept());
  unit.compute_bytes = types.compute == types.kept() ? 0 : unit.shard_elements * compute;
  if (kind.trained) {
    unit.local_gradient_bytes = unit.elements * master;
    unit.gradient_bytes = unit.shard_elements * master;
    unit.reduce_bytes = unit.elements * size_of(types.reduced());
    unit.reduce_shard_bytes = unit.shard_elements * size_of(types.reduced());
    for (const StateDescription& state : types.state(kind.update))
      unit.optimizer_bytes += state_elements(state, unit, parameters, types.master) * size_of(state.dtype);
  }
  if (sharding.shards > 1) {
    unit.shard_axes = sharding.axes;
    unit.gathered_bytes = unit.elements * compute;
    unit.kept_axes = sharding.kept_axes;
    if (sharding.kept_shards > 1) unit.kept_bytes = unit_offsets(kept, types.master).back() * compute;
  }
  unit.update_exchanges = update_exchanges_of(unit, parameters, types, sharding, kind.of_experts);
  return unit;
}

}  // namespace

UpdateSums update_sums(const Shape& matrix) {
  if (matrix.size() < 2) return {.first = 2, .second = 0};  // squares of weights and of directions
  return {.first = matrix[0] + matrix[1] + 1, .second = 1};
}

std::int64_t rows_at_once(const ExpertSharing& sharing, std::int64_t rows) {
  return static_cast<std::int64_t>(std::ceil(sharing.capacity * static_cast<double>(rows)));
}

std::int64_t most_further_rounds(const ExpertSharing& sharing) {
  if (sharing.ranks == 1) return 0;
  return static_cast<std::int64_t>(std::ceil(sharing.ranks / sharing.capacity)) - 1;
}

Sharding of_experts(const Sharding& sharding) {
  const int shards = sharding.blocks.experts.shards;
  return {.axes = shards == 1 ? std::vector<AxisName>{} : std::vector{expert_shard_axis},
          .shards = shards,
          .blocks = sharding.blocks};
}

Recomputation recomputation_of(const BlockPlan& block, KeepSet keeps) {
  if (!block.recomputations.empty()) return block.recomputations[keeps.index()];
  return {.kept_bytes = 0,
          .workspace_bytes = block.inference_workspace_bytes,
          .flops = block.forward_flops,
          .exchanges = block.exchanges.forward};
}

Shape longest_shard(Shape shape, int shards) {
  invariant(shards == 1 || !shape.empty(), "a sharded tensor has rows");
  if (shards > 1) shape[0] = (shape[0] + shards - 1) / shards;
  return shape;
}

const std::vector<StateDescription>& UnitTypes::state(int update) const {
  static const std::vector<StateDescription> none;
  return static_cast<std::size_t>(update) < states.size() ? states[static_cast<std::size_t>(update)] : none;
}

std::vector<std::int64_t> unit_offsets(const std::vector<std::int64_t>& elements, DType master) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t count : elements)
    offsets.push_back(offsets.back() + rounded_up(count, unit_alignment_bytes / size_of(master)));
  return offsets;
}

std::int64_t rows_in_memory(std::int64_t rows, std::int64_t multiple) {
  return multiple == 0 ? rows : rounded_up(rows, multiple);
}

std::int64_t unit_padding(const std::vector<std::int64_t>& offsets, const Shape& shape, std::int64_t row_multiple) {
  if (row_multiple <= 1 || shape.empty() || shape[0] == 0) return 0;
  const std::int64_t row = elements(shape) / shape[0], begin = offsets[offsets.size() - 2];
  return std::max<std::int64_t>(0, begin + rows_in_memory(shape[0], row_multiple) * row - offsets.back());
}

namespace {

std::set<std::ptrdiff_t> stages_reading(const ParameterPlan& parameter, const Buckets& buckets) {
  std::set<std::ptrdiff_t> stages;
  for (const int block : parameter.blocks)
    stages.insert(std::ranges::upper_bound(buckets.stage_begins, block) - buckets.stage_begins.begin());
  return stages;
}

/// Whether a unit of several blocks may be one.
bool is_bucket(const UnitPlan& unit, const std::vector<ParameterPlan>& parameters, const UnitTypes& types,
               const Buckets& buckets) {
  const auto stages = [&](int index) { return stages_reading(parameters[static_cast<std::size_t>(index)], buckets); };
  const auto is_padded = [&](int index) { return parameters[static_cast<std::size_t>(index)].row_multiple > 1; };
  if (std::ranges::count_if(unit.parameters, is_padded) > 1) return false;
  return unit.elements * size_of(types.master) <= buckets.bytes && std::ranges::all_of(unit.parameters, [&](int index) {
           return stages(index) == stages(unit.parameters.front());
         });
}

}  // namespace

std::vector<UnitPlan> make_units(const std::vector<std::string>& blocks, const std::vector<ParameterPlan>& parameters,
                                 const UnitTypes& types, const Buckets& buckets, const Sharding& sharding) {
  for (const ParameterPlan& parameter : parameters)
    for (const int block : parameter.blocks.empty() ? std::vector<int>{-1} : parameter.blocks)
      invariant(block >= 0 && static_cast<std::size_t>(block) < blocks.size(),
                "every parameter belongs to a block of the model");
  std::vector<Kind> kinds;
  for (const ParameterPlan& parameter : parameters)
    if (const Kind kind = kind_of(parameter); std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  std::vector<std::pair<int, UnitPlan>> units;  // with their first blocks
  for (const Kind& kind : kinds) {
    const auto unit_over = [&](int first, int last) {
      return unit_of(blocks, parameters, types, kind.of_experts ? of_experts(sharding) : sharding, kind, first, last);
    };
    int last = -1;  // of the unit that is being filled
    for (int block = static_cast<int>(blocks.size()) - 1; block >= 0; --block) {
      UnitPlan alone = unit_over(block, block);
      if (alone.parameters.empty()) continue;
      if (last >= 0 && kind.unit.empty() && is_bucket(unit_over(block, last), parameters, types, buckets)) {
        units.back() = {block, unit_over(block, last)};
      } else {
        last = block;
        units.emplace_back(block, std::move(alone));
      }
    }
  }
  std::ranges::stable_sort(units, {}, &std::pair<int, UnitPlan>::first);
  std::vector<UnitPlan> made;
  for (auto& [block, unit] : units) made.push_back(std::move(unit));
  return made;
}

}  // namespace lockstep
