// What ranks see together of a run's checkpoints where each node has storage of its own: a checkpoint counts where each
// of its files lies on some node now, whichever wrote it. Where all ranks see one storage: checkpoint/agreed_view.hpp.
#pragma once

#include "checkpoint/agreed_view.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/run_storage.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Which ranks can read what of a checkpoint.
struct FileAccess {
  Rank head = 0;                           // one that sees manifest and index
  std::vector<std::vector<Rank>> readers;  // by number in Manifest::files, ascending; empty: all ranks see all files
};

/// A sighting as one storage tells the others.
std::string encode_sighting(const Sighting& sighting);

/// What the storages of a job have of one checkpoint, put together.
struct NodesSighting {
  Judgement judgement = {};               // says nothing of files that are missing
  std::vector<std::size_t> have_it = {};  // numbers of the storages with the manifest that counts, the first of them
  std::vector<std::vector<std::size_t>> storages_of_file = {};  // by number in Manifest::files
  std::optional<std::size_t> lacking = {};                      // the first file that none of them has
};
/// `told` is encode_sighting of each storage, `names` are theirs. Pure.
NodesSighting put_together(std::span<const std::string> told, std::span<const std::string> names);

/// The checkpoints that any node has. Collective over `ranks`; the same on all. Throws Error(storage) if a rank cannot
/// look within the patience.
std::vector<CheckpointEntry> list_on_nodes(Communicator& ranks, const RunStorage& storage, const Path& run,
                                           Patience& patience);

struct NodesJudgement {
  Judgement judgement;
  FileAccess access;  // where it is sound
};
/// The verdict on names, lengths and manifests, and who can read which file. A file that no node has when the patience
/// is over is damage; one that a node's storage does not tell of is unreadable. Collective over `ranks`; the same on
/// all.
NodesJudgement judge_on_nodes(Communicator& ranks, const RunStorage& storage, const Path& checkpoint,
                              Patience& patience);

/// Finishes what a kill left half done: a save that one node has published was complete on all, so those that still
/// have it staged publish it too. Returns on each rank what its storage took in. Collective over `ranks`; no save of
/// the run is under way. Throws Error(storage).
std::vector<Path> finish_publications(Communicator& ranks, const RunStorage& storage, const Path& run);

/// Throws Error(usage) on all ranks if two nodes see one folder under the path: then it is not storage of their own,
/// which `asked` says that it is. Creates the folder. Collective over `ranks`. Throws Error(storage).
void require_own_storage(Communicator& ranks, const RunStorage& storage, const Path& run, const std::string& asked,
                         const std::string& hint);

}  // namespace lockstep
