// A mesh names the ways in which ranks differ: pipeline stage, data replica, … It is a value.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

using Rank = int;              // always the world rank
using AxisName = std::string;  // pp, dp_replicate, dp_shard, ring, ulysses, tp; ep, ep_shard on the expert mesh
inline const AxisName pipeline_axis = "pp";  // ranks that share out the blocks of a model in stages
inline const AxisName tensor_axis = "tp";    // ranks that share each block
// Its faster factor where a model has fewer key heads than there are such ranks: those with the same key heads.
inline const AxisName key_replica_axis = "tp_keys";
// Ranks that share out experts, each some of them; ranks with the same experts, which cut these, or hold them alike.
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
  // The same ranks in other factors, by which those of a stage, or of a cell of it, share out experts: pp,
  // dp_replicate of cells, ep_replicate, ep_shard and ep, slowest first; empty: none do. Names may be of either.
  std::vector<Axis> expert_axes = {};
  bool operator==(const Mesh&) const = default;
};

/// Whether the ranks of both have the same places along the same axes; axes of one rank do not count. Pure.
bool same_ranks(const Mesh& a, const Mesh& b);
/// "dp_replicate 2 x tp 2"; "1 rank" where no axis has more.
std::string to_text(const Mesh& mesh);

/// A mesh over ranks [0, product of sizes) with the axes slowest first; strides follow.
/// Throws Usage for a repeated name or a size below 1.
Mesh make_mesh(std::string id, const std::vector<std::pair<AxisName, int>>& sizes);

/// Divides the ranks of each stage, and of each cell along dp_replicate where there is a dp_node, once more: so many
/// neighbours, or, `apart`, ranks as far from each other as can be, along ep, the others along ep_shard or, not
/// `sharded`, along ep_replicate. Throws Usage, with the arithmetic, if they cannot be divided so.
void divide_experts(Mesh& mesh, int ranks, bool apart, bool sharded);

int world_size(const Mesh& mesh);
const Axis* find_axis(const Mesh& mesh, const AxisName& name);      // null if the mesh does not have it
int coordinate(const Mesh& mesh, Rank rank, const AxisName& name);  // 0 if the mesh does not have the axis
/// The ranks that agree with `rank` on every axis except those named, in order of the named coordinates (slowest
/// first). Names that the mesh does not have count as axes of size 1.
std::vector<Rank> group_along(const Mesh& mesh, Rank rank, const std::vector<AxisName>& axes);
/// The name of the cell that `rank` belongs to when state is equal along `equal_along`: its other coordinates of axes
/// larger than 1, "pp=0,tp=2"; "all" if none is left.
std::string cell_name(const Mesh& mesh, Rank rank, const std::vector<AxisName>& equal_along);

}  // namespace lockstep
