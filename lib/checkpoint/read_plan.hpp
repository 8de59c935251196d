// A read plan says which blocks of a checkpoint a rank needs, and which of the ranks that need a block reads it. Each
// rank plans for itself and considers only the ranks that need the same blocks; all of them compute the same reader.
// checkpoint/shared_read.hpp executes the plan.
#pragma once

#include "checkpoint/node_view.hpp"
#include "layout/layout.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/read_ahead.hpp"
#include "store/state_tree.hpp"
#include "store/write_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// A read of one stored tensor.
struct SharedTensor {
  std::size_t stored = 0;             // number in Manifest::tensors
  Shape as;                           // shape that the boxes refer to: the stored shape, or a view of its elements
  const Layout* layout = nullptr;     // gives the box of each rank; null: `holdings` give them
  std::span<const Holding> holdings;  // all boxes of the tensor that ranks need; none is empty
  std::vector<StateRegion> local;     // destinations on this rank; a box without one is dropped
};

/// Blocks that a rank holds at a time as their reader. It also holds as many packed for others and as many received
/// messages: together at most 192 MiB, and more only if a tensor is read under several names at once.
inline constexpr std::size_t blocks_in_work = 8;
/// Returns an upper bound in bytes for one of `ranks` ranks, if no stored tensor is larger than `largest` bytes. Pure.
std::int64_t bytes_in_work(int ranks, std::int64_t largest);

/// The blocks that exactly the same ranks need and exactly the same ranks may read.
struct SharedBytes {
  std::span<const Rank> readers;
  std::uint64_t bytes = 0;  // of all these blocks
  std::uint64_t given = 0;  // of the blocks that have an owner
};

/// A block that this rank needs, or reads for others.
struct NeededBlock {
  PieceBlock block;
  std::span<const std::size_t> wanted;  // numbers of the SharedTensors that read the stored tensor
  SharedBytes* shared = nullptr;
  bool is_needed_here = true;
  Rank owner = 0;  // the rank that reads it
};

/// `tensors` are equal on all ranks except for `local`. They and the reader outlive the plan. Its cost grows with the
/// tensors, the blocks that the rank needs, and the ranks that need the same blocks. If not all ranks can read all
/// files, `access` says which ranks can; a block that none of them needs is read by one of them for the others. Local.
/// It reads the tables of parts with pieces that the rank needs, and with `access` also those of all files that the
/// rank can read.
class ReadPlan {
 public:
  /// Throws as CheckpointReader::pieces_with does.
  ReadPlan(const CheckpointReader& reader, std::span<const SharedTensor> tensors, Rank rank,
           const FileAccess& access = {});

  /// Blocks that this rank reads, and blocks that it receives from others, in the order of the files. All ranks have
  /// the same order.
  const std::vector<NeededBlock>& own() const { return own_; }
  const std::vector<NeededBlock>& of_others() const { return of_others_; }
  std::size_t largest() const { return largest_; }          // bytes of the largest block
  std::size_t most_packed() const { return most_packed_; }  // most bytes that an own block takes in packed form
  /// Returns the boxes that this rank needs of a tensor.
  std::span<const Box> boxes(std::size_t tensor) const { return boxes_[tensor]; }
  /// Returns the boxes of all ranks that may have elements of a block of the stored tensor. They stay valid as long as
  /// the plan.
  std::vector<const Holding*> holdings_with(const PieceBlock& block, std::size_t tensor);
  /// Returns the smallest box of the stored tensor that contains the elements of a block.
  Box box_around_block(const PieceBlock& block) const;

 private:
  struct Kind {  // tensors of one layout
    const Layout* layout = nullptr;
    std::map<Rank, Holding> holdings;  // by one of its ranks; filled on request
  };
  void plan_stored(std::span<const std::size_t> wanted);
  SharedBytes& shared_bytes(const std::vector<Rank>& needed_by, std::size_t file);
  void choose_owners();
  Box region_of(std::size_t tensor, const Box& box) const;
  const Holding& holding_of(std::size_t tensor, Rank rank);
  const CheckpointReader& reader_;
  std::span<const SharedTensor> tensors_;
  Rank rank_;
  std::vector<std::size_t> by_stored_;   // numbers of tensors, ordered by their stored tensor
  std::vector<std::vector<Box>> boxes_;  // by tensor
  std::deque<Kind> kinds_;
  std::vector<Kind*> kind_of_;              // by tensor; null: not requested yet
  std::vector<std::vector<Rank>> readers_;  // by file; empty if all ranks can read all files
  std::vector<std::size_t> readable_;       // files that this rank can read for others
  /// By the ranks that need the blocks, then by the ranks that may read them.
  std::map<std::vector<Rank>, std::map<std::vector<Rank>, SharedBytes>> shared_;
  std::vector<NeededBlock> own_, of_others_;
  std::size_t largest_ = 0;
  std::size_t most_packed_ = 0;
};

}  // namespace lockstep
