// A layout says which box of a logical tensor each rank holds. It is a value: pure arithmetic, no communication, no
// LibTorch. All shard offsets come from here. The copies between two layouts: layout/redistribute.hpp.
#pragma once

#include "layout/dtype.hpp"
#include "layout/mesh.hpp"
#include "layout/shape.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Cuts one dimension over a set of mesh axes (of the expert mesh or of the other one), as FSDP2 does: ceil-division
/// into equal chunks, the last ones short or empty.
struct Split {
  std::vector<AxisName> axes;  // flattened, slowest first: one division over all of them
  int dim = 0;
  std::int64_t granule = 1;  // elements of dim that stay together: a head, a 128-tile, a quantisation group
  // Number of parts; 0: one for each rank along the axes. With fewer, neighbours hold the same part (KV heads).
  std::int64_t parts = 0;
  bool operator==(const Split&) const = default;
};

/// Restricts a tensor to these coordinates of an axis: a stage's tensors, a tied embedding on pp 0 and last.
struct Pin {
  AxisName axis;
  std::vector<int> coordinates;
  bool operator==(const Pin&) const = default;
};

struct Layout {
  Shape global;  // of the logical tensor, without padding
  DType dtype = DType::f32;
  Mesh mesh;
  std::vector<Split> splits;  // applied in order: tensor parallel first, sharding within it
  std::vector<Pin> pins;      // over axes neither split nor pinned it is replicated
  // The shape in other programs' files and in messages, if `global` is another view of the same elements in the same
  // order. A view is used when a rank's elements form a box of the view but no box of this shape: (C, 3·C) viewed as
  // (C, 3, C). Empty: same as global.
  Shape known = {};
  bool operator==(const Layout&) const = default;
};

inline const Shape& known_shape(const Layout& layout) { return layout.known.empty() ? layout.global : layout.known; }

/// Throws Error(usage) if a split or pin names an axis that the mesh does not have, a dim that the shape lacks or a
/// coordinate beyond the axis; if an axis is named twice (no rank would hold some elements); or if the view has another
/// number of elements.
void check(const Layout& layout);

/// Returns the region of the logical tensor that `rank` holds. If there are fewer chunks than ranks, it may be empty
/// along the split dim; if a pin excludes the rank, it is nothing(global). Throws Error(usage) as check().
Box box_of(const Layout& layout, Rank rank);

/// Returns the ranks that hold exactly the box of `rank`, ascending: its replicas. Only `rank` if its box is empty.
std::vector<Rank> replicas_of(const Layout& layout, Rank rank);

/// Returns one holder of each distinct box that shares elements with `box`. The cost depends on the number of these
/// boxes, not on the number of ranks.
std::vector<Rank> holders_meeting(const Layout& layout, const Box& box);

/// Returns the axes of the mesh (without the expert mesh) along which ranks hold equal boxes: neither split nor pinned.
/// Includes axes of size 1.
std::vector<AxisName> replicated_axes(const Layout& layout);

Layout replicated(Shape global, DType dtype, Mesh mesh);  // every rank holds all of it
Layout like(const Layout& layout, DType dtype);           // same boxes, another type, e.g. of moments
/// Layout of optimizer state that is kept per matrix, such as sums over its rows, for a tensor with the layout
/// `weights`: every rank that holds a part of the tensor holds all of the state. With expert parallelism each rank
/// holds the state of its own experts; dim 0 then counts experts, in their order.
Layout matrix_state_layout(const Layout& weights, Shape global, DType dtype);

}  // namespace lockstep
