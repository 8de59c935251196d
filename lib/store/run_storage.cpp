#include "store/run_storage.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

std::vector<Rank> RunStorage::keepers() const {
  if (is_shared()) return {0};
  std::vector<Rank> ranks;
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
    if (keeps(static_cast<Rank>(rank))) ranks.push_back(static_cast<Rank>(rank));
  return ranks;
}

bool RunStorage::keeps(Rank rank) const {
  if (is_shared()) return rank == 0;
  const auto own = of_rank.begin() + rank;
  return std::find(of_rank.begin(), own, *own) == own;
}

std::string RunStorage::node_of(Rank rank) const {
  return is_shared() ? "" : nodes.at(static_cast<std::size_t>(of_rank.at(static_cast<std::size_t>(rank))));
}

RunStorage storage_of_nodes(const World& world) {
  RunStorage storage{world.node_of_rank, world.node_names};
  if (storage.of_rank.empty()) storage.of_rank.assign(static_cast<std::size_t>(world_size(world.mesh)), 0);
  const int nodes = *std::ranges::max_element(storage.of_rank) + 1;
  while (std::ssize(storage.nodes) < nodes) storage.nodes.push_back(fmt::format("node {}", storage.nodes.size()));
  return storage;
}

}  // namespace lockstep
