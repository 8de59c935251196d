#include "layout/mesh.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

#include <algorithm>

namespace lockstep {

namespace {

const AxisName cells = "dp_replicate";  // that train apart, where the replicas of each are along dp_node

int coordinate_along(const Axis& axis, Rank rank) { return rank / axis.stride % axis.size; }

}  // namespace

bool same_ranks(const Mesh& a, const Mesh& b) {
  const auto of_several = [](std::vector<Axis> axes) {
    std::erase_if(axes, [](const Axis& axis) { return axis.size == 1; });
    return axes;
  };
  return of_several(a.axes) == of_several(b.axes) && of_several(a.expert_axes) == of_several(b.expert_axes);
}

std::string to_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const Axis& axis : mesh.axes)
    if (axis.size > 1) axes.push_back(fmt::format("{} {}", axis.name, axis.size));
  return axes.empty() ? "1 rank" : join(axes, " x ");
}

Mesh make_mesh(std::string id, const std::vector<std::pair<AxisName, int>>& sizes) {
  Mesh mesh{std::move(id), {}};
  for (const auto& [name, size] : sizes) {
    if (find_axis(mesh, name) != nullptr) fail(ExitCode::usage, "mesh {}: axis {} is named twice", mesh.id, name);
    if (size < 1)
      fail(ExitCode::usage, "mesh {}: axis {} has size {}, but a size must be at least 1", mesh.id, name, size);
    mesh.axes.push_back({name, size, 1});
  }
  for (std::size_t i = mesh.axes.size(); i-- > 1;) mesh.axes[i - 1].stride = mesh.axes[i].stride * mesh.axes[i].size;
  return mesh;
}

int world_size(const Mesh& mesh) {
  int size = 1;
  for (const Axis& axis : mesh.axes) size *= axis.size;
  return size;
}

void divide_experts(Mesh& mesh, int ranks, bool apart, bool sharded) {
  const Axis* const stages = find_axis(mesh, pipeline_axis);
  const Axis* const cell_axis = find_axis(mesh, "dp_node") == nullptr ? nullptr : find_axis(mesh, cells);
  const int count = stages == nullptr ? 1 : stages->size, of_stage = world_size(mesh) / count;
  const int of_cell = of_stage / (cell_axis == nullptr ? 1 : cell_axis->size);
  if (ranks < 1 || of_cell % ranks != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot distribute experts over ep={}: there {} {}{}, and {} mod {} is {}", ranks,
                            of_cell == 1 ? "is" : "are", counted(of_cell, "rank"),
                            cell_axis != nullptr ? " in a cell"
                            : count == 1         ? ""
                                                 : " per stage",
                            of_cell, ranks, of_cell % ranks),
                cell_axis == nullptr ? "choose a parallel.ep that divides them"
                                     : "choose a parallel.ep that divides them, or a larger post_local_sgd.cell");
  const bool between = stages != nullptr && stages->stride != 1 && stages->stride != of_stage;
  if (between)
    throw Error(ExitCode::usage,
                fmt::format("cannot distribute experts over ep={}: parallel.order puts pp between other axes", ranks),
                "put pp last in parallel.order, or leave it out: it then comes first");
  const int step = stages != nullptr && stages->stride == 1 && of_stage > 1 ? count : 1, others = of_cell / ranks;
  if (cell_axis != nullptr && cell_axis->stride != step * of_cell)
    throw Error(ExitCode::usage,
                fmt::format("cannot distribute experts over ep={}: parallel.order puts {} after other axes, so the "
                            "ranks of a cell are not contiguous",
                            ranks, cells),
                fmt::format("leave {} out of parallel.order", cells));
  const Axis ep{expert_axis, ranks, apart ? step * others : step};
  const int stride = apart ? step : step * ranks;
  const Axis replicas{expert_replica_axis, sharded ? 1 : others, stride},
      shards{expert_shard_axis, sharded ? others : 1, stride};
  if (stages != nullptr) mesh.expert_axes.push_back(*stages);
  if (cell_axis != nullptr) mesh.expert_axes.push_back(*cell_axis);
  if (apart) mesh.expert_axes.push_back(ep);
  mesh.expert_axes.insert(mesh.expert_axes.end(), {replicas, shards});
  if (!apart) mesh.expert_axes.push_back(ep);
}

const Axis* find_axis(const Mesh& mesh, const AxisName& name) {
  for (const std::vector<Axis>* axes : {&mesh.axes, &mesh.expert_axes})
    for (const Axis& axis : *axes)
      if (axis.name == name) return &axis;
  return nullptr;
}

int coordinate(const Mesh& mesh, Rank rank, const AxisName& name) {
  const Axis* axis = find_axis(mesh, name);
  return axis == nullptr ? 0 : coordinate_along(*axis, rank);
}

std::vector<Rank> group_along(const Mesh& mesh, Rank rank, const std::vector<AxisName>& axes) {
  std::vector<Rank> group{rank};
  for (const AxisName& name : axes) {  // every step replaces each rank by its row along one more, faster axis
    const Axis* axis = find_axis(mesh, name);
    if (axis == nullptr) continue;
    std::vector<Rank> longer;
    longer.reserve(group.size() * static_cast<std::size_t>(axis->size));
    for (const Rank member : group) {
      const Rank first = member - coordinate_along(*axis, member) * axis->stride;
      for (int i = 0; i < axis->size; ++i) longer.push_back(first + i * axis->stride);
    }
    group = std::move(longer);
  }
  return group;
}

std::string cell_name(const Mesh& mesh, Rank rank, const std::vector<AxisName>& equal_along) {
  std::string name;
  for (const Axis& axis : mesh.axes) {
    if (axis.size == 1 || std::find(equal_along.begin(), equal_along.end(), axis.name) != equal_along.end()) continue;
    name += fmt::format("{}{}={}", name.empty() ? "" : ",", axis.name, coordinate_along(axis, rank));
  }
  return name.empty() ? "all" : name;
}

}  // namespace lockstep
