// The common view of a run's checkpoints if each node has storage of its own. A checkpoint counts if each of its files
// lies on some node now, whichever node wrote it. For storage that all ranks see: checkpoint/agreed_view.hpp.
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

/// Says which ranks can read which files of a checkpoint.
struct FileAccess {
  Rank head = 0;                           // a rank that sees manifest and index
  std::vector<std::vector<Rank>> readers;  // by number in Manifest::files, ascending; empty: all ranks see all files
};

/// Returns the text by which one storage reports its sighting to the others. Pure.
std::string encode_sighting(const Sighting& sighting);

/// The combined sightings of one checkpoint on all storages of a job.
struct NodesSighting {
  Judgement judgement = {};               // does not cover missing files
  std::vector<std::size_t> have_it = {};  // numbers of the storages that hold the manifest that counts, ascending
  std::vector<std::vector<std::size_t>> storages_of_file = {};  // by number in Manifest::files
  std::optional<std::size_t> lacking = {};                      // the first file that no storage has
};
/// Combines sightings: `told` has encode_sighting of each storage, `names` their names. Pure.
NodesSighting combine_sightings(std::span<const std::string> told, std::span<const std::string> names);

/// Returns the checkpoints that any node has, the same on all ranks. Collective over `ranks`. Throws Error(storage) if
/// a rank still cannot read its folder when the patience is over.
std::vector<CheckpointEntry> list_on_nodes(Communicator& ranks, const RunStorage& storage, const Path& run,
                                           Patience& patience);

struct NodesJudgement {
  Judgement judgement;
  FileAccess access;  // set if the checkpoint is sound
};
/// Returns the verdict on names, lengths and manifests, and which ranks can read which file. A file that no node has
/// when the patience is over is damage. If the storage of a node fails, the checkpoint is unreadable. Returns the same
/// value on all ranks. Collective over `ranks`.
NodesJudgement judge_on_nodes(Communicator& ranks, const RunStorage& storage, const Path& checkpoint,
                              Patience& patience);

/// Completes saves that a kill interrupted. If one node has published a save, the save was complete on all nodes, so
/// nodes that still have it staged publish it too. Returns on each rank the checkpoints that it published. Collective
/// over `ranks`; no save of the run may be running. Throws Error(storage).
std::vector<Path> finish_publications(Communicator& ranks, const RunStorage& storage, const Path& run);

/// Checks that the nodes have storage of their own, as `asked` says. Throws Error(usage) with `hint` on all ranks if
/// two nodes see one folder at `run`, and Error(storage). Creates the folder. Collective over `ranks`.
void require_own_storage(Communicator& ranks, const RunStorage& storage, const Path& run, const std::string& asked,
                         const std::string& hint);

}  // namespace lockstep
