#include "layout/layout.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"

#include <algorithm>

namespace lockstep {

namespace {

bool names(const std::vector<AxisName>& axes, const AxisName& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

const Axis& axis_of(const Layout& layout, const AxisName& name) {
  const Axis* axis = find_axis(layout.mesh, name);
  if (axis == nullptr)
    fail(ExitCode::usage, "layout of a {} tensor names axis {}, which mesh {} does not have", to_text(layout.global),
         name, layout.mesh.id);
  return *axis;
}

bool is_among(const std::vector<Axis>& axes, const AxisName& name) {
  return std::ranges::any_of(axes, [&](const Axis& axis) { return axis.name == name; });
}

/// What is cut over axes of experts has these as its axes.
const std::vector<Axis>& axes_for(const Layout& layout) {
  const auto of_experts = [&](const AxisName& name) { return !is_among(layout.mesh.axes, name); };
  const bool cuts = std::ranges::any_of(
      layout.splits, [&](const Split& split) { return std::ranges::any_of(split.axes, of_experts); });
  return cuts ? layout.mesh.expert_axes : layout.mesh.axes;
}

/// Whether ranks that differ along one axis alone are at one place of the other.
bool apart(const Axis& one, const Axis& other) {
  if (one.size == 1 || other.size == 1) return true;
  return one.stride % (other.stride * other.size) == 0 || other.stride % (one.stride * one.size) == 0;
}

/// An axis may cut or pin a tensor once: cut twice, or cut and pinned, some elements would be held by nobody.
void claim(std::vector<AxisName>& claimed, const Layout& layout, const AxisName& name) {
  axis_of(layout, name);
  if (!is_among(axes_for(layout), name))
    fail(ExitCode::usage, "layout of a {} tensor mixes axis {} with expert axes", to_text(layout.global), name);
  if (names(claimed, name))
    fail(ExitCode::usage, "layout of a {} tensor splits or pins axis {} twice", to_text(layout.global), name);
  claimed.push_back(name);
}

void check_split(const Layout& layout, const Split& split) {
  if (split.dim < 0 || static_cast<std::size_t>(split.dim) >= layout.global.size())
    fail(ExitCode::usage, "layout splits dim {} of a {} tensor, which has {} dims", split.dim, to_text(layout.global),
         layout.global.size());
  if (split.granule < 1)
    fail(ExitCode::usage, "layout of a {} tensor has granule {}, but a granule must be at least 1",
         to_text(layout.global), split.granule);
  if (split.parts < 0)
    fail(ExitCode::usage, "layout of a {} tensor has {} parts, but the number must be 0 (one per rank) or more",
         to_text(layout.global), split.parts);
}

void check_pin(const Layout& layout, const Pin& pin) {
  const Axis& axis = axis_of(layout, pin.axis);
  if (pin.coordinates.empty())
    fail(ExitCode::usage, "layout of a {} tensor pins axis {} to no coordinate", to_text(layout.global), pin.axis);
  for (const int coordinate : pin.coordinates)
    if (coordinate < 0 || coordinate >= axis.size)
      fail(ExitCode::usage, "layout of a {} tensor pins axis {} to {}, but its size is {}", to_text(layout.global),
           pin.axis, coordinate, axis.size);
}

/// Which part of the split `rank` holds, of how many.
struct Part {
  std::int64_t index = 0;
  std::int64_t count = 1;
};

std::int64_t ranks_along(const Layout& layout, const Split& split) {
  std::int64_t ranks = 1;
  for (const AxisName& name : split.axes) ranks *= axis_of(layout, name).size;
  return ranks;
}

std::int64_t parts_of(const Layout& layout, const Split& split) {
  const std::int64_t ranks = ranks_along(layout, split);
  return split.parts == 0 ? ranks : std::min(split.parts, ranks);
}

/// The length of each part but the last ones.
std::int64_t chunk_of(const Split& split, std::int64_t length, std::int64_t parts) {
  return ceil_div(ceil_div(length, split.granule), parts) * split.granule;
}

Part part_of(const Layout& layout, const Split& split, Rank rank) {
  std::int64_t index = 0;
  for (const AxisName& name : split.axes) {
    const Axis& axis = axis_of(layout, name);
    index = index * axis.size + rank / axis.stride % axis.size;
  }
  const std::int64_t count = parts_of(layout, split);
  return {index * count / ranks_along(layout, split), count};
}

/// What the first rank that holds a part has in its number for the axes of the split.
Rank first_of_part(const Layout& layout, const Split& split, std::int64_t part) {
  std::int64_t index = ceil_div(part * ranks_along(layout, split), parts_of(layout, split));
  Rank rank = 0;
  for (auto name = split.axes.rbegin(); name != split.axes.rend(); ++name) {
    const Axis& axis = axis_of(layout, *name);
    rank += static_cast<Rank>(index % axis.size) * axis.stride;
    index /= axis.size;
  }
  return rank;
}

/// Cuts what the splits before have left of the tensor, `left` for ranks of the number `rank`, by the others.
void find_holders(const Layout& layout, const Box& wanted, std::size_t split_number, const Box& left, Rank rank,
                  std::vector<Rank>& found) {
  const Box met = intersect(left, wanted);
  if (empty(met)) return;
  if (split_number == layout.splits.size()) {
    found.push_back(rank);
    return;
  }
  const Split& split = layout.splits[split_number];
  const auto dim = static_cast<std::size_t>(split.dim);
  const std::int64_t chunk = chunk_of(split, left.extent[dim], parts_of(layout, split));
  const std::int64_t first = met.begin[dim] - left.begin[dim], end = first + met.extent[dim];
  for (std::int64_t part = first / chunk; part * chunk < end; ++part) {
    Box rest = left;
    rest.begin[dim] += part * chunk;
    rest.extent[dim] = std::min(chunk, left.extent[dim] - part * chunk);
    find_holders(layout, wanted, split_number + 1, rest, rank + first_of_part(layout, split, part), found);
  }
}

/// That cut or pin it.
std::vector<AxisName> used_axes(const Layout& layout) {
  std::vector<AxisName> used;
  for (const Split& split : layout.splits) used.insert(used.end(), split.axes.begin(), split.axes.end());
  for (const Pin& pin : layout.pins) used.push_back(pin.axis);
  return used;
}

bool excluded(const Layout& layout, Rank rank) {
  return std::any_of(layout.pins.begin(), layout.pins.end(), [&](const Pin& pin) {
    const int here = coordinate(layout.mesh, rank, pin.axis);
    return std::find(pin.coordinates.begin(), pin.coordinates.end(), here) == pin.coordinates.end();
  });
}

Box box_of_checked(const Layout& layout, Rank rank) {
  if (excluded(layout, rank)) return nothing(layout.global);
  Box box = whole(layout.global);
  for (const Split& split : layout.splits) {
    const Part part = part_of(layout, split, rank);
    const auto dim = static_cast<std::size_t>(split.dim);
    const std::int64_t length = box.extent[dim];
    const std::int64_t chunk = chunk_of(split, length, part.count);
    const std::int64_t begin = std::min(part.index * chunk, length);
    box.begin[dim] += begin;
    box.extent[dim] = std::min(chunk, length - begin);
  }
  return box;
}

}  // namespace

void check(const Layout& layout) {
  if (elements(known_shape(layout)) != elements(layout.global))
    fail(ExitCode::usage, "a {} tensor cannot be viewed as {}: the number of elements differs", to_text(layout.known),
         to_text(layout.global));
  std::vector<AxisName> claimed;
  for (const Split& split : layout.splits) {
    check_split(layout, split);
    for (const AxisName& name : split.axes) claim(claimed, layout, name);
  }
  for (const Pin& pin : layout.pins) {
    claim(claimed, layout, pin.axis);
    check_pin(layout, pin);
  }
}

Box box_of(const Layout& layout, Rank rank) {
  check(layout);
  invariant(rank >= 0 && rank < world_size(layout.mesh), "the rank of a box is in the mesh");
  return box_of_checked(layout, rank);
}

std::vector<Rank> replicas_of(const Layout& layout, Rank rank) {
  const Box box = box_of(layout, rank);
  if (empty(box)) return {rank};
  // Different parts of a split never overlap, so only axes that do not cut, or whose ranks share parts, lead to
  // replicas.
  std::vector<AxisName> axes;
  for (const Axis& axis : axes_for(layout))
    if (!names(used_axes(layout), axis.name)) axes.push_back(axis.name);
  for (const Pin& pin : layout.pins) axes.push_back(pin.axis);
  for (const Split& split : layout.splits)
    if (split.parts != 0 && split.parts < ranks_along(layout, split))
      axes.insert(axes.end(), split.axes.begin(), split.axes.end());
  std::vector<Rank> replicas = group_along(layout.mesh, rank, axes);
  std::erase_if(replicas, [&](Rank other) { return box_of_checked(layout, other) != box || excluded(layout, other); });
  std::sort(replicas.begin(), replicas.end());
  return replicas;
}

std::vector<Rank> holders_meeting(const Layout& layout, const Box& box) {
  check(layout);
  Rank first = 0;
  for (const Pin& pin : layout.pins)
    first += *std::ranges::min_element(pin.coordinates) * axis_of(layout, pin.axis).stride;
  std::vector<Rank> holders;
  find_holders(layout, box, 0, whole(layout.global), first, holders);
  return holders;
}

std::vector<AxisName> replicated_axes(const Layout& layout) {
  const std::vector<AxisName> used = used_axes(layout);
  std::vector<AxisName> result;
  for (const Axis& axis : layout.mesh.axes)
    if (std::ranges::all_of(used, [&](const AxisName& name) { return apart(axis, axis_of(layout, name)); }))
      result.push_back(axis.name);
  return result;
}

Layout replicated(Shape global, DType dtype, Mesh mesh) { return {std::move(global), dtype, std::move(mesh), {}, {}}; }

Layout like(const Layout& layout, DType dtype) {
  Layout result = layout;
  result.dtype = dtype;
  return result;
}

Layout matrix_state_layout(const Layout& weights, Shape global, DType dtype) {
  Layout result = replicated(std::move(global), dtype, weights.mesh);
  result.pins = weights.pins;
  for (Split split : weights.splits) {
    if (split.axes != std::vector<AxisName>{expert_axis}) continue;
    split.granule = split.granule * result.global.front() / weights.global.front();
    result.splits.push_back(std::move(split));
  }
  return result;
}

}  // namespace lockstep
