// A mesh arranges the ranks along named axes: pipeline stage, data-parallel replica, … It is a value.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using Rank = int;  // always the world rank
// pp, dp_replicate, dp_shard, ring, ulysses, tp; ep, ep_shard, ep_replicate on the expert mesh
using AxisName = std::string;
inline const AxisName pipeline_axis = "pp";  // pipeline parallel: each rank has some blocks
inline const AxisName tensor_axis = "tp";    // tensor parallel: ranks share each block
// If a model has fewer key heads than tensor-parallel ranks, tp is split into two axes. This one, the faster one, joins
// the ranks with the same key heads.
inline const AxisName key_replica_axis = "tp_keys";
// Axes of the expert mesh: along ep each rank has other experts; along ep_shard ranks shard the same experts, and along
// ep_replicate they replicate them.
inline const AxisName expert_axis = "ep", expert_shard_axis = "ep_shard", expert_replica_axis = "ep_replicate";

struct Axis {
  AxisName name;
  int size = 1;
  int stride = 1;  // distance in ranks between neighbours along this axis
  bool operator==(const Axis&) const = default;
};

struct Mesh {
  std::string id;          // "world"
  std::vector<Axis> axes;  // slowest first
  // The expert mesh: another factorisation of the same ranks, by which the ranks of a stage, or of a cell of it, share
  // experts. pp, dp_replicate of cells, ep_replicate, ep_shard and ep, slowest first; empty: no expert parallelism.
  // Names may refer to either mesh.
  std::vector<Axis> expert_axes = {};
  bool operator==(const Mesh&) const = default;
};

/// Whether both arrange the ranks in the same way along the same axes; axes of size 1 do not count. Pure.
bool same_ranks(const Mesh& a, const Mesh& b);
/// "dp_replicate 2 x tp 2"; "1 rank" if no axis is larger than 1.
std::string to_text(const Mesh& mesh);

/// Creates a mesh over ranks [0, product of sizes) with the axes slowest first; strides follow from the sizes. Throws
/// Error(usage) for a repeated name or a size below 1.
Mesh make_mesh(std::string id, const std::vector<std::pair<AxisName, int>>& sizes);

/// Adds the expert mesh: divides the ranks of each stage (with a dp_node axis: of each cell along dp_replicate) into
/// groups of `ranks` along ep. These are neighbours, or, with `apart`, as far from each other as possible. The other
/// ranks lie along ep_shard if `sharded`, else along ep_replicate. Throws Error(usage), with the arithmetic, if the
/// division is impossible.
void divide_experts(Mesh& mesh, int ranks, bool apart, bool sharded);

int world_size(const Mesh& mesh);
const Axis* find_axis(const Mesh& mesh, const AxisName& name);      // nullptr if the mesh does not have it
int coordinate(const Mesh& mesh, Rank rank, const AxisName& name);  // 0 if the mesh does not have the axis
/// Returns the ranks that agree with `rank` on every axis except the named ones, in order of the named coordinates
/// (slowest first). Names that the mesh does not have count as axes of size 1.
std::vector<Rank> group_along(const Mesh& mesh, Rank rank, const std::vector<AxisName>& axes);
/// Returns the name of the cell of `rank` when state is equal along `equal_along`: its other coordinates of axes larger
/// than 1, "pp=0,tp=2"; "all" if none is left.
std::string cell_name(const Mesh& mesh, Rank rank, const std::vector<AxisName>& equal_along);

}  // namespace lockstep
