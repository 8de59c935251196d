#include "layout/nodes.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace lockstep {

namespace {

/// The ranks of each node that has any, ascending.
std::vector<int> sizes_of(const Nodes& nodes) {
  std::map<int, int> ranks;
  for (const int node : nodes) ++ranks[node];
  std::vector<int> sizes;
  for (const auto& [node, count] : ranks) sizes.push_back(count);
  std::ranges::sort(sizes);
  return sizes;
}

}  // namespace

Nodes nodes_of(const std::vector<std::string>& hosts) {
  std::map<std::string, int> numbers;
  Nodes nodes;
  for (const std::string& host : hosts) nodes.push_back(numbers.try_emplace(host, std::ssize(numbers)).first->second);
  return nodes;
}

Nodes full_nodes(int ranks, int ranks_per_node) {
  invariant(ranks_per_node > 0, "a node has at least one rank");
  Nodes nodes;
  for (Rank rank = 0; rank < ranks; ++rank) nodes.push_back(rank / ranks_per_node);
  return nodes;
}

std::optional<int> ranks_of_each(const Nodes& nodes) {
  const std::vector<int> sizes = sizes_of(nodes);
  if (sizes.empty() || sizes.front() != sizes.back()) return std::nullopt;
  return sizes.front();
}

std::vector<Rank> by_node(const Nodes& nodes) {
  std::vector<Rank> ranks(nodes.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::ranges::stable_sort(ranks, {}, [&](Rank rank) { return nodes[static_cast<std::size_t>(rank)]; });
  return ranks;
}

std::vector<SplitGroup> groups_across_nodes(const Mesh& mesh, const Nodes& nodes) {
  if (nodes.empty()) return {};
  invariant(std::ssize(nodes) == world_size(mesh), "every rank of the mesh is on a node");
  const int node_size = sizes_of(nodes).back();
  std::vector<SplitGroup> torn;
  SplitGroup group{.axes = {}, .ranks = 1, .nodes = 0, .rank = 0, .node_size = node_size};
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis) {
    if (axis->size == 1) continue;
    group.axes.insert(group.axes.begin(), axis->name);
    group.ranks *= axis->size;
    if (group.ranks > node_size) break;
    for (Rank first = 0; first < world_size(mesh); first += group.ranks) {  // fastest axes: its ranks are neighbours
      const std::set<int> on(nodes.begin() + first, nodes.begin() + first + group.ranks);
      if (on.size() == 1) continue;
      group.rank = first;
      group.nodes = static_cast<int>(on.size());
      torn.push_back(group);
      break;
    }
  }
  return torn;
}

}  // namespace lockstep
