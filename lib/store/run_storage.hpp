// Where the folder of a run lies: on storage that all ranks see, or, under the same path, on storage of each node's
// own. One rank of each storage, its keeper, makes folders, commits and deletes there. What ranks find on storage of
// nodes: checkpoint/node_view.hpp.
#pragma once

#include "base/files.hpp"
#include "layout/mesh.hpp"
#include "store/component.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// The default is one storage that all ranks see.
struct RunStorage {
  std::vector<int> of_rank = {};        // number of the storage that a rank sees, by lowest rank; empty: all see one
  std::vector<std::string> nodes = {};  // whose own they are, by number

  bool is_shared() const { return of_rank.empty(); }
  /// The lowest rank of each storage, ascending.
  std::vector<Rank> keepers() const;
  bool keeps(Rank rank) const;
  /// The node on whose own storage a rank writes; empty where all share one.
  std::string node_of(Rank rank) const;
};

/// The storage of each node of a job. Pure.
RunStorage storage_of_nodes(const World& world);

/// A local tier is where checkpoints of a run lie first: a folder as that of the run, on storage of each node's own,
/// from where they are promoted to the folder of the run, which all ranks see (checkpoint/promote.hpp).
struct LocalTier {
  Path folder;
  RunStorage storage;
};

}  // namespace lockstep
