// The storage of a run's folder: storage that all ranks see or, under the same path, storage of each node's own. One
// rank of each storage, its keeper, creates folders, commits and deletes there. The combined view of node-local
// storage: checkpoint/node_view.hpp.
#pragma once

#include "base/files.hpp"
#include "layout/mesh.hpp"
#include "store/component.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// The default is one storage that all ranks see.
struct RunStorage {
  std::vector<int> of_rank = {};        // number of the storage of each rank, by lowest rank; empty: all ranks see one
  std::vector<std::string> nodes = {};  // their owners, by number of the storage

  bool is_shared() const { return of_rank.empty(); }
  /// Returns the lowest rank of each storage, ascending.
  std::vector<Rank> keepers() const;
  bool keeps(Rank rank) const;
  /// Returns the node whose own storage a rank writes to; empty for shared storage.
  std::string node_of(Rank rank) const;
};

/// Returns node-local storage for the nodes of a job. Pure.
RunStorage storage_of_nodes(const World& world);

/// A local tier holds the checkpoints of a run first, in a folder on each node's own storage. From there they are
/// promoted to the run folder, which all ranks see (checkpoint/promote.hpp).
struct LocalTier {
  Path folder;
  RunStorage storage;
};

}  // namespace lockstep
