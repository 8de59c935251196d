// Which machine each rank of a mesh runs on, and which groups of ranks that leaves together. Pure.
#pragma once

#include "layout/mesh.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The node of every rank, counted from 0 as they appear; empty: not known.
using Nodes = std::vector<int>;

/// Ranks of equal hosts are on one node.
Nodes nodes_of(const std::vector<std::string>& hosts);
/// So many ranks on each node, numbered one node after the other; the last may have fewer.
Nodes full_nodes(int ranks, int ranks_per_node);
/// The ranks of each node, where all have as many.
std::optional<int> ranks_of_each(const Nodes& nodes);
/// The ranks, those of node 0 first, then those of node 1, …; on a node as they were.
std::vector<Rank> by_node(const Nodes& nodes);

/// Where the ranks of a mesh run, by rank.
struct Placement {
  Nodes nodes;
  std::vector<Rank> launcher_ranks;  // the numbers that the launcher gave them; empty: not known
};

/// A group of ranks that would fit on one node and lies on several.
struct TornGroup {
  std::vector<AxisName> axes;  // it is along these: the fastest of the mesh
  int ranks = 0;
  int nodes = 0;      // that it lies on
  Rank rank = 0;      // one of it
  int node_size = 0;  // ranks on the largest node
};

/// The groups along the fastest axis, the two fastest, … of `mesh` as long as they are no larger than the largest of
/// `nodes`: of each such set of axes the first group that lies on several. None if nothing is known of the nodes.
std::vector<TornGroup> torn_groups(const Mesh& mesh, const Nodes& nodes);

}  // namespace lockstep
