#include "reshard/model_layouts.hpp"

#include "architecture/block_profile.hpp"
#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "layout/sequence.hpp"
#include "program/stages.hpp"

#include <algorithm>

namespace lockstep {

namespace {

const AxisName replica_axis = "dp_replicate", shard_axis = "dp_shard";

BlockSharing sharing_on(const Mesh& mesh) {
  BlockSharing sharing{.rows = true};  // by rows or not: that cuts no weight, and models with experts ask for it
  if (const Axis* axis = find_axis(mesh, key_replica_axis)) sharing.key_replicas = axis->size;
  if (const Axis* axis = find_axis(mesh, tensor_axis)) sharing.ranks = axis->size * sharing.key_replicas;
  if (const Axis* axis = find_axis(mesh, expert_axis))
    sharing.experts = {.ranks = axis->size, .shards = find_axis(mesh, expert_shard_axis)->size};
  return sharing;
}

/// Blocks with what stages are balanced by, and units, which stages hold whole.
ModelPlan plan_for_stages(const Architecture& whole, const Architecture& shared, const ModelFacts& model,
                          const Sharding& sharding) {
  ModelPlan plan;
  Architecture part = shared;
  part.config = part_of(whole.config, sharding.blocks);
  BatchShape batch;
  batch.length = model.sequence_length;
  batch.sharing = sharding.blocks;
  for (std::size_t i = 0; i < part.blocks.size(); ++i) {
    const BlockProfile costs = profile(part, i, batch);
    plan.blocks.push_back({.name = block_name(part.blocks[i]),
                           .forward_flops = costs.forward_flops,
                           .backward_flops = costs.backward_input_flops + costs.backward_weight_flops});
  }
  plan.units = units_of(shared, UnitTypes{}, {}, sharding);
  return plan;
}

/// By stored tensor: the stages that hold it.
std::vector<std::vector<int>> stages_of_tensors(const ModelPlan& plan, int stages, std::size_t tensors) {
  const Pipeline pipeline{.ranks = stages};
  const std::vector<PipelinePart> parts = parts_of({pipeline, balanced_stages(costs_of(plan), pipeline)}, plan);
  std::vector<std::vector<int>> holders(tensors);
  for (std::size_t unit = 0; unit < plan.units.size(); ++unit)
    for (std::size_t part = 0; part < parts.size(); ++part)
      if (std::ranges::binary_search(parts[part].units, static_cast<int>(unit)))
        for (const int tensor : plan.units[unit].parameters)
          holders[static_cast<std::size_t>(tensor)].push_back(static_cast<int>(part));
  return holders;
}

int product_of(const std::vector<AxisName>& axes, const Mesh& mesh) {
  int product = 1;
  for (const AxisName& axis : axes) product *= find_axis(mesh, axis)->size;
  return product;
}

}  // namespace

int size_along(const MeshRequest& asked, const AxisName& axis) {
  const auto found = std::ranges::find(asked.axes, axis, &std::pair<AxisName, int>::first);
  return found == asked.axes.end() ? 1 : found->second;
}

Mesh job_mesh(const MeshRequest& asked, int key_replicas) {
  std::vector<std::pair<AxisName, int>> axes;
  for (const AxisName& name : {pipeline_axis, replica_axis, shard_axis, ring_axis, ulysses_axis, tensor_axis}) {
    const int size = size_along(asked, name);
    if (name == tensor_axis && key_replicas > 1) {
      axes.emplace_back(tensor_axis, size / key_replicas);
      axes.emplace_back(key_replica_axis, key_replicas);
    } else if (size > 1 || name == replica_axis) {
      axes.emplace_back(name, size);
    }
  }
  Mesh mesh = make_mesh("world", axes);
  const int experts = size_along(asked, expert_axis);
  if (experts > 1) divide_experts(mesh, experts, asked.ep_outside, product_of(row_axes(asked, mesh), mesh) > 1);
  return mesh;
}

std::vector<AxisName> row_axes(const MeshRequest& asked, const Mesh& mesh) {
  std::vector<AxisName> axes;
  const bool cuts = std::ranges::any_of(asked.axes, [](const auto& axis) { return axis.first == shard_axis; });
  if (!cuts) return axes;
  for (const Axis& axis : mesh.axes)  // in the order of ranks
    if (axis.size > 1 && (axis.name == shard_axis || axis.name == ring_axis || axis.name == ulysses_axis))
      axes.push_back(axis.name);
  return axes;
}

std::map<std::string, Layout> model_layouts(const ModelFacts& model, const Mesh& mesh,
                                            const std::vector<AxisName>& row_axes) {
  const Architecture whole = describe(model.config);
  Architecture shared = whole;
  const Sharding sharding{.axes = row_axes, .shards = product_of(row_axes, mesh), .blocks = sharing_on(mesh)};
  cut_over(shared, sharding.blocks);
  const std::vector<LogicalTensor> tensors = stored_tensors(shared);
  const Axis* const stages = find_axis(mesh, pipeline_axis);
  std::vector<std::vector<int>> holders(tensors.size());
  if (stages != nullptr)
    holders = stages_of_tensors(plan_for_stages(whole, shared, model, sharding), stages->size, tensors.size());
  std::map<std::string, Layout> layouts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const LogicalTensor& tensor = tensors[i];
    Layout layout = replicated(view_of(tensor), DType::f32, mesh);
    if (!tensor.view.empty()) layout.known = tensor.shape;
    if (!holders[i].empty()) layout.pins.push_back({pipeline_axis, holders[i]});
    if (tensor.cut) layout.splits.push_back(*tensor.cut);
    const Sharding own = is_shared_out(tensor, sharding.blocks) ? of_experts(sharding) : sharding;
    if (own.shards > 1) layout.splits.push_back({.axes = own.axes, .dim = 0});
    layouts[tensor.name] = std::move(layout);
  }
  return layouts;
}

}  // namespace lockstep
