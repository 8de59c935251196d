// A layout says which box of a logical tensor each rank holds. It is a value: pure arithmetic, no communication, no
// LibTorch. Everything that needs a shard offset asks here. What moves between two layouts: layout/redistribute.hpp.
#pragma once

#include "layout/dtype.hpp"
#include "layout/mesh.hpp"
#include "layout/shape.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Cuts one dimension over a set of mesh axes, of experts or others, as FSDP2 does: ceil-division into equal chunks,
/// the last ones short or empty.
struct Split {
  std::vector<AxisName> axes;  // flattened, slowest first: one division over all of them, not one after the other
  int dim = 0;
  std::int64_t granule = 1;  // elements of dim that stay together: a head, a 128-tile, a quantisation group
  std::int64_t parts = 0;    // 0: as many as ranks along the axes; fewer: neighbours share a part (KV heads)
  bool operator==(const Split&) const = default;
};

/// Holds a tensor only at these coordinates of an axis: a stage's tensors, a tied embedding on pp 0 and last.
struct Pin {
  AxisName axis;
  std::vector<int> coordinates;
  bool operator==(const Pin&) const = default;
};

struct Layout {
  Shape global;  // of the logical tensor, without padding
  DType dtype = DType::f32;
  Mesh mesh;
  std::vector<Split> splits;  // applied in order: tensor parallel outside, sharding inside
  std::vector<Pin> pins;      // axes neither split nor pinned replicate
  // As files of others, and people, know it, where `global` is a view of the same elements in the same order, because
  // a box of that can be held and none of this: (C, 3·C) of (C, 3, C). Empty: global.
  Shape known = {};
  bool operator==(const Layout&) const = default;
};

inline const Shape& known_shape(const Layout& layout) { return layout.known.empty() ? layout.global : layout.known; }

/// Throws Usage if a split or pin names an axis that the mesh does not have, a dim that the shape lacks or a coordinate
/// beyond the axis, if an axis is named twice (elements would be held by nobody), or if a view has other elements.
void check(const Layout& layout);

/// The region of the logical tensor that `rank` holds. Where the chunks run out it is empty along the split dim; if a
/// pin excludes the rank it is nothing(global). Throws Usage as check().
Box box_of(const Layout& layout, Rank rank);

/// The ranks that hold exactly the box of `rank`, ascending: its replicas. `rank` alone if its box is empty.
std::vector<Rank> replicas_of(const Layout& layout, Rank rank);

/// One holder of each distinct box that has elements of `box`. Takes time for these alone, whatever ranks there are.
std::vector<Rank> holders_meeting(const Layout& layout, const Box& box);

/// Axes of the mesh, those of experts left out, along which holders have equal boxes (neither split nor pinned), of
/// size 1 included.
std::vector<AxisName> replicated_axes(const Layout& layout);

Layout replicated(Shape global, DType dtype, Mesh mesh);  // every rank holds all of it
Layout like(const Layout& layout, DType dtype);           // moments: same boxes, another type
/// Of what is kept of whole matrices beside a tensor with that layout, as sums over their rows: every rank that has a
/// part of the tensor holds all of it. Where experts are shared out each rank has that of its own; dim 0 is then of
/// experts, in their order.
Layout beside_matrices(const Layout& weights, Shape global, DType dtype);

}  // namespace lockstep
