// The files of a checkpoint before they exist: every piece of every tensor with its writer and its part. A pure
// function of what is saved and by whom, so all ranks make the same plan; checkpoint-reshard makes it for imagined
// ranks. store/staging.hpp carries it out.
#pragma once

#include "base/hash.hpp"
#include "store/manifest.hpp"
#include "store/part_file.hpp"
#include "store/write_plan.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct PlannedFile {
  std::string path;                 // within the checkpoint: "replicated/part-0002.h5"
  Rank leader = 0;                  // stamps and seals it
  std::vector<std::size_t> pieces;  // numbers in CheckpointPlan::pieces
  std::vector<Rank> writers;        // ascending
};

struct CheckpointPlan {
  std::vector<StoredTensor> tensors;  // their fingerprints are not known yet
  std::vector<WriteItem> pieces;
  std::vector<std::size_t> file_of_piece;
  std::vector<PlannedFile> files;  // by path
  int ranks = 1;
};

/// Who holds which boxes of a tensor whose layout, or whose cell, tells: of what is global rank 0. Pure.
std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks);

/// Which part each rank writes to, of those of a pattern: so many neighbours share one, or, without a number, the ranks
/// of a node. Pure.
std::vector<int> parts_of_ranks(const World& world, std::optional<int> ranks_per_file);

/// Tensor i is held as holdings[i] says; all its holders share the writing if the component compares all that they
/// hold, else one replica writes. Each pattern has parts of its own, of which rank r writes to part_of_rank[r]; no
/// folder has more than 512 of them. Pure.
CheckpointPlan plan_checkpoint(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                               const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank);

std::uint64_t total_bytes(const CheckpointPlan& plan);
/// Equal on all ranks if their plans are.
Hash128 hash_of(const CheckpointPlan& plan);
PartPiece part_piece(const CheckpointPlan& plan, std::size_t piece);
std::vector<PartPiece> part_pieces(const CheckpointPlan& plan, const PlannedFile& file);

/// The plan for people: files with writers, pieces and bytes, and how even the writers are.
std::string describe_plan(const CheckpointPlan& plan);

}  // namespace lockstep
