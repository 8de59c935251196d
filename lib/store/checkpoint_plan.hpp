// Plans the files of a checkpoint: every piece of every tensor with its writer and its part file. The plan is a pure
// function of the state and its holders, so all ranks make the same plan, and each rank makes only the part that it
// needs. checkpoint-reshard plans for imagined ranks. store/staging.hpp writes the files.
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

/// A range of CheckpointPlan::tensors; a file has pieces of each.
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
  std::string node = {};            // node that has it on storage of its own; empty: shared storage
};

inline constexpr std::size_t elsewhere = static_cast<std::size_t>(-1);

struct CheckpointPlan {
  std::vector<StoredTensor> tensors;  // without fingerprints
  std::uint64_t piece_bytes = 0;      // upper limit; a single row may be larger
  std::vector<WriteItem> pieces;
  std::vector<std::size_t> file_of_piece;  // `elsewhere` for pieces of parts that are not planned
  std::vector<PlannedFile> files;          // by path
  std::vector<std::string> folders;        // of all parts, planned or not
  int ranks = 1;
};

/// Returns the holders of a tensor's boxes by its layout or cell; rank 0 if the component is global. Pure.
std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks);
/// Returns only the boxes that a rank of `among` holds. Takes no time for the other ranks. Pure.
std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks,
                                std::span<const Rank> among);

/// Returns the part that each rank writes to. Neighbouring ranks share one: `ranks_per_file` of them or, by default,
/// the ranks of a node. Ranks of different storages never share a part. Pure.
std::vector<int> parts_of_ranks(const World& world, std::optional<int> ranks_per_file, const RunStorage& storage = {});

/// Plans a checkpoint. The ranks of holdings[i] hold tensor i. All holders share the writing if the component's
/// validation is rolling or deeper; otherwise one replica writes. Each pattern has parts of its own, and rank r writes
/// to part part_of_rank[r]; a folder has at most 512 parts. Throws Error(bug) if the holdings do not make up the
/// tensors. Pure.
CheckpointPlan plan_checkpoint(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                               const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank);
/// Plans one part: its files, and the pieces of the boxes that the part's ranks hold. `holdings` has only these boxes.
/// The plans of all ranks together equal plan_checkpoint. Pure.
CheckpointPlan plan_part(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                         const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank,
                         int part);

std::uint64_t total_bytes(const CheckpointPlan& plan);
/// Returns a hash that is equal for equal plans.
Hash128 hash_of(const CheckpointPlan& plan);
PartPiece part_piece(const CheckpointPlan& plan, std::size_t piece);
std::vector<PartPiece> part_pieces(const CheckpointPlan& plan, const PlannedFile& file);

/// Returns the plan for people: files with pieces and bytes, and the balance of the writers.
std::string describe_plan(const CheckpointPlan& plan);

}  // namespace lockstep
