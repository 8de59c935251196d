// The nodes on which the ranks of a mesh run, and groups of ranks that are spread over several nodes. Pure.
#pragma once

#include "layout/mesh.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The node of every rank, numbered from 0 in order of appearance; empty: unknown.
using Nodes = std::vector<int>;

/// Ranks with equal host names are on one node.
Nodes nodes_of(const std::vector<std::string>& hosts);
/// Places ranks_per_node consecutive ranks on each node; the last may have fewer.
Nodes full_nodes(int ranks, int ranks_per_node);
/// The number of ranks per node, if all nodes have the same number.
std::optional<int> ranks_of_each(const Nodes& nodes);
/// Returns the ranks sorted by node; the ranks of a node keep their order.
std::vector<Rank> by_node(const Nodes& nodes);

/// Nodes and launcher ranks of the ranks of a mesh, indexed by rank.
struct Placement {
  Nodes nodes;
  std::vector<Rank> launcher_ranks;  // numbers given by the launcher; empty: unknown
};

/// A group of ranks that would fit on one node but is spread over several.
struct SplitGroup {
  std::vector<AxisName> axes;  // the group's axes: the fastest ones of the mesh
  int ranks = 0;
  int nodes = 0;      // nodes that it spans
  Rank rank = 0;      // one of its ranks
  int node_size = 0;  // ranks on the largest node
};

/// Returns, for the fastest axis of `mesh`, the two fastest, …, the first group that spans several nodes, as long as
/// groups are no larger than the largest node. Empty if nodes are unknown.
std::vector<SplitGroup> groups_across_nodes(const Mesh& mesh, const Nodes& nodes);

}  // namespace lockstep
