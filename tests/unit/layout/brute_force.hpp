// The slow truth about layouts: which elements a rank holds, found by dealing out single indices, and random layouts to
// try it on.
#pragma once

#include "layout/layout.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace lockstep::brute_force {

using Element = std::vector<std::int64_t>;

using Coordinates = std::map<AxisName, int>;

/// As an odometer counts: the last axis runs fastest.
inline std::vector<Coordinates> counted(const std::vector<Axis>& axes) {
  std::vector<Coordinates> all{{}};
  for (const Axis& axis : axes) {
    std::vector<Coordinates> longer;
    for (const auto& before : all)
      for (int i = 0; i < axis.size; ++i) {
        longer.push_back(before);
        longer.back()[axis.name] = i;
      }
    all = longer;
  }
  return all;
}

/// The coordinates of every rank, found by counting; those of experts, by counting the ranks of each stage once more.
/// For meshes of make_mesh and divide_experts only.
inline std::vector<Coordinates> coordinates(const Mesh& mesh) {
  std::vector<Coordinates> all = counted(mesh.axes);
  std::vector<Axis> within;  // a stage
  for (const Axis& axis : mesh.expert_axes)
    if (axis.name != pipeline_axis) within.push_back(axis);
  const std::vector<Coordinates> of_experts = counted(within);
  std::map<int, std::size_t> seen;  // ranks of each stage
  for (Coordinates& rank : all) {
    const int stage = rank.contains(pipeline_axis) ? rank.at(pipeline_axis) : 0;
    const Coordinates& more = of_experts[seen[stage]++ % of_experts.size()];
    rank.insert(more.begin(), more.end());
  }
  return all;
}

/// The indices of one dim that remain after one split, given which seat of how many the rank has.
inline std::vector<std::int64_t> deal(const std::vector<std::int64_t>& indices, const Split& split, int seat,
                                      int seats) {
  std::vector<std::vector<std::int64_t>> granules;
  for (const std::int64_t index : indices) {
    if (granules.empty() || static_cast<std::int64_t>(granules.back().size()) == split.granule) granules.emplace_back();
    granules.back().push_back(index);
  }
  const int parts = split.parts == 0 || split.parts > seats ? seats : static_cast<int>(split.parts);
  std::size_t hand = 0;  // the least number of granules a part that leaves none over
  while (hand * static_cast<std::size_t>(parts) < granules.size()) ++hand;
  std::vector<int> part_of_seat;  // parts in order, each held by neighbours; with 5 seats and 2 parts 0 0 0 1 1
  for (int s = 0; s < seats; ++s) part_of_seat.push_back(s * parts / seats);
  std::vector<std::int64_t> kept;
  for (std::size_t g = 0; g < granules.size(); ++g)
    if (hand > 0 && static_cast<int>(g / hand) == part_of_seat[static_cast<std::size_t>(seat)])
      kept.insert(kept.end(), granules[g].begin(), granules[g].end());
  return kept;
}

/// Every element that each rank holds.
inline std::vector<std::set<Element>> holdings(const Layout& layout) {
  const auto ranks = coordinates(layout.mesh);
  std::vector<std::set<Element>> result(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    bool here = true;
    for (const Pin& pin : layout.pins) {
      bool pinned_here = false;
      for (const int coordinate : pin.coordinates) pinned_here |= ranks[rank].at(pin.axis) == coordinate;
      here &= pinned_here;
    }
    if (!here) continue;
    std::set<Element> held{{}};
    for (std::size_t dim = 0; dim < layout.global.size(); ++dim) {
      std::vector<std::int64_t> indices;
      for (std::int64_t i = 0; i < layout.global[dim]; ++i) indices.push_back(i);
      for (const Split& split : layout.splits) {
        if (static_cast<std::size_t>(split.dim) != dim) continue;
        int seats = 1;
        int seat = 0;
        for (const AxisName& axis : split.axes) {
          seats *= find_axis(layout.mesh, axis)->size;
          seat = seat * find_axis(layout.mesh, axis)->size + ranks[rank].at(axis);
        }
        indices = deal(indices, split, seat, seats);
      }
      std::set<Element> longer;
      for (const Element& element : held)
        for (const std::int64_t index : indices) {
          Element next = element;
          next.push_back(index);
          longer.insert(next);
        }
      held = longer;
    }
    result[rank] = held;
  }
  return result;
}

inline std::set<Element> elements_of(const Box& box) {
  std::set<Element> result;
  if (empty(box)) return result;
  Element at = box.begin;
  while (true) {
    result.insert(at);
    std::size_t dim = at.size();
    while (dim > 0 && at[dim - 1] + 1 == box.begin[dim - 1] + box.extent[dim - 1]) {
      at[dim - 1] = box.begin[dim - 1];
      --dim;
    }
    if (dim == 0) return result;
    ++at[dim - 1];
  }
}

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int roll(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

  Shape shape(int dims) {
    Shape shape;
    for (int dim = 0; dim < dims; ++dim) shape.push_back(roll(0, 12) == 0 ? 0 : roll(1, 9));
    return shape;
  }

  Mesh mesh() {
    const std::vector<AxisName> names{"pp", "dp_shard", "tp"};
    std::vector<std::pair<AxisName, int>> sizes;
    for (int axis = roll(1, 3); axis > 0; --axis) sizes.emplace_back(names[sizes.size()], roll(1, 4));
    return make_mesh("world", sizes);
  }

  /// Ranks of which those of each stage share out experts; stages are the slowest axis or the fastest, or there are
  /// none.
  Mesh mesh_of_experts() {
    std::vector<std::pair<AxisName, int>> sizes{{"dp_shard", roll(1, 4)}, {"tp", roll(1, 3)}};
    if (roll(0, 2) == 0) sizes.insert(sizes.begin(), {"dp_replicate", roll(1, 2)});
    int of_stage = 1;
    for (const auto& axis : sizes) of_stage *= axis.second;
    if (roll(0, 1) == 0) sizes.insert(roll(0, 1) == 0 ? sizes.begin() : sizes.end(), {pipeline_axis, roll(1, 3)});
    Mesh mesh = make_mesh("world", sizes);
    int ranks = roll(1, of_stage);
    while (of_stage % ranks != 0) --ranks;
    divide_experts(mesh, ranks, roll(0, 1) == 0, roll(0, 1) == 0);
    return mesh;
  }

  /// Splits over disjoint axes, nested on one dim at times, and a pin on an axis that is left.
  Layout layout(const Shape& global) {
    Layout layout = replicated(global, DType::f32, mesh());
    cut(layout, names_of(layout.mesh.axes), global.empty() ? 0 : roll(0, 3));
    return layout;
  }

  /// The same over axes of experts, ep among them. `global` has dims.
  Layout layout_of_experts(const Shape& global) {
    Layout layout = replicated(global, DType::f32, mesh_of_experts());
    cut(layout, names_of(layout.mesh.expert_axes), roll(1, 3));
    return layout;
  }

 private:
  static std::vector<AxisName> names_of(const std::vector<Axis>& axes) {
    std::vector<AxisName> names;
    for (const Axis& axis : axes) names.push_back(axis.name);
    return names;
  }

  void cut(Layout& layout, std::vector<AxisName> free, int splits) {
    const Shape& global = layout.global;
    std::shuffle(free.begin(), free.end(), engine_);
    std::ranges::stable_partition(free, [](const AxisName& axis) { return axis != expert_axis; });  // the first to go
    for (; splits > 0 && !free.empty(); --splits) {
      Split split;
      for (int axes = roll(1, 2); axes > 0 && !free.empty(); --axes) {
        split.axes.push_back(free.back());
        free.pop_back();
      }
      split.dim = roll(0, static_cast<int>(global.size()) - 1);
      split.granule = roll(0, 1) == 0 ? 1 : roll(1, 4);
      split.parts = roll(0, 1) == 0 ? 0 : roll(1, 5);
      layout.splits.push_back(split);
    }
    if (!free.empty() && roll(0, 3) == 0) {
      Pin pin{free.back(), {}};
      for (int i = 0; i < find_axis(layout.mesh, pin.axis)->size; ++i)
        if (roll(0, 1) == 0) pin.coordinates.push_back(i);
      if (!pin.coordinates.empty()) layout.pins.push_back(pin);
    }
  }

  std::mt19937 engine_;
};

}  // namespace lockstep::brute_force
