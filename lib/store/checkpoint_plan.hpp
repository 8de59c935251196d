// The files of a checkpoint before they exist: every piece of every tensor with its writer and its part. A pure
// function of what is saved and by whom, so ranks make the same plan, each as much of it as it needs;
// checkpoint-reshard makes it for imagined ranks. store/staging.hpp carries it out.
#pragma once

#include "base/hash.hpp"
#include "store/manifest.hpp"
#include "store/part_file.hpp"
#include "store/run_storage.hpp"
#include "store/write_plan.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Neighbours in CheckpointPlan::tensors that a file has pieces of.
struct TensorRun {
  std::size_t first = 0;
  std::size_t count = 0;
  bool by_layout = false;  // each piece lies in the box that the layout gives its writer
};

struct PlannedFile {
  std::string path;                 // within the checkpoint: "replicated/part-0002.h5"
  Rank leader = 0;                  // stamps and seals it
  std::vector<std::size_t> pieces;  // numbers in CheckpointPlan::pieces
  std::vector<Rank> writers;        // ascending
  std::vector<TensorRun> tensors;   // of the pieces, ascending
  std::string node = {};            // on whose own storage it lies; empty: on storage that all share
};

inline constexpr std::size_t elsewhere = static_cast<std::size_t>(-1);

struct CheckpointPlan {
  std::vector<StoredTensor> tensors;  // their fingerprints are not known yet
  std::uint64_t piece_bytes = 0;      // at most, but for single rows
  std::vector<WriteItem> pieces;
  std::vector<std::size_t> file_of_piece;  // elsewhere: of a part that is not planned
  std::vector<PlannedFile> files;          // by path
  std::vector<std::string> folders;        // of all parts, planned or not
  int ranks = 1;
};

/// Who holds which boxes of a tensor whose layout, or whose cell, tells: of what is global rank 0. Pure.
std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks);
/// The same for the boxes alone that one of `among` holds. Takes no time for the other ranks. Pure.
std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks,
                                std::span<const Rank> among);

/// Which part each rank writes to, of those of a pattern: so many neighbours share one, or, without a number, the ranks
/// of a node. Ranks of different storages share none. Pure.
std::vector<int> parts_of_ranks(const World& world, std::optional<int> ranks_per_file, const RunStorage& storage = {});

/// Tensor i is held as holdings[i] says; all its holders share the writing if the component compares all that they
/// hold, else one replica writes. Each pattern has parts of its own, of which rank r writes to part_of_rank[r]; no
/// folder has more than 512 of them. Throws Error(bug) if the holdings do not make up the tensors. Pure.
CheckpointPlan plan_checkpoint(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                               const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank);
/// What of it is to be known of one part: its files, and the pieces of the boxes that ranks which write to it hold.
/// `holdings` are those boxes alone. As all ranks together plan, so does one for all of them. Pure.
CheckpointPlan plan_part(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                         const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank,
                         int part);

std::uint64_t total_bytes(const CheckpointPlan& plan);
/// Equal on all ranks if their plans are.
Hash128 hash_of(const CheckpointPlan& plan);
PartPiece part_piece(const CheckpointPlan& plan, std::size_t piece);
std::vector<PartPiece> part_pieces(const CheckpointPlan& plan, const PlannedFile& file);

/// The plan for people: files with writers, pieces and bytes, and how even the writers are.
std::string describe_plan(const CheckpointPlan& plan);

}  // namespace lockstep
