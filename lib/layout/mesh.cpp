#include "layout/mesh.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

namespace {

int coordinate_along(const Axis& axis, Rank rank) { return rank / axis.stride % axis.size; }

}  // namespace

Mesh make_mesh(std::string id, const std::vector<std::pair<AxisName, int>>& sizes) {
  Mesh mesh{std::move(id), {}};
  for (const auto& [name, size] : sizes) {
    if (find_axis(mesh, name) != nullptr) fail(ExitCode::usage, "mesh {}: axis {} is named twice", mesh.id, name);
    if (size < 1) fail(ExitCode::usage, "mesh {}: axis {} has size {}, but a size is at least 1", mesh.id, name, size);
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

const Axis* find_axis(const Mesh& mesh, const AxisName& name) {
  const auto found =
      std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const Axis& axis) { return axis.name == name; });
  return found == mesh.axes.end() ? nullptr : &*found;
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
