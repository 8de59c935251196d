// Which blocks of a checkpoint a rank needs, and who of the ranks that need one reads it. Each rank plans for itself
// alone: of others it looks at those with which it shares blocks, and all that share one come to the same.
// checkpoint/shared_read.hpp carries it out.
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

/// What is read of a stored tensor.
struct SharedTensor {
  std::size_t stored = 0;             // number in Manifest::tensors
  Shape as;                           // what the boxes are of: the stored shape, or a view of its elements
  const Layout* layout = nullptr;     // says who needs which box; none: `holdings` do
  std::span<const Holding> holdings;  // all boxes that ranks need of the tensor; none of them is empty
  std::vector<StateBox> local;        // where this rank wants its own; what has no place here is dropped
};

/// Blocks that a rank holds at a time as their reader, as many again packed for others, and messages that it receives:
/// all together at most 192 MiB, more only where a tensor is wanted under several names at once.
inline constexpr std::size_t blocks_in_work = 8;
/// What that comes to for one of so many ranks, where no stored tensor has more bytes than `largest`. Pure.
std::int64_t bytes_in_work(int ranks, std::int64_t largest);

/// What the blocks have that just the same ranks need, and of which just these may read them.
struct SharedBytes {
  std::span<const Rank> readers;
  std::uint64_t bytes = 0;  // of all
  std::uint64_t given = 0;  // of those that have an owner
};

/// A block that this rank needs, or reads for others.
struct NeededBlock {
  PieceBlock block;
  std::span<const std::size_t> wanted;  // numbers of the tensors that are read from the stored one
  SharedBytes* shared = nullptr;
  bool is_needed_here = true;
  Rank owner = 0;  // who reads it
};

/// `tensors` are equal on all ranks but for `local`. They and the reader outlive the plan. What it takes grows with the
/// tensors and the blocks that the rank needs, and with the ranks of those boxes that share one of them. Local; it
/// reads the tables of parts that have what the rank needs. Where not all ranks can read all files, `access` says which
/// of them can: a block that none of these needs is read by one of them for the others.
class ReadPlan {
 public:
  /// Throws what CheckpointReader::pieces_with throws.
  ReadPlan(const CheckpointReader& reader, std::span<const SharedTensor> tensors, Rank rank,
           const FileAccess& access = {});

  /// In the order of the files, which all ranks have in common.
  const std::vector<NeededBlock>& own() const { return own_; }
  const std::vector<NeededBlock>& of_others() const { return of_others_; }
  std::size_t largest() const { return largest_; }          // bytes of a block
  std::size_t most_packed() const { return most_packed_; }  // bytes that an own block takes in packed form
  /// The boxes that this rank needs of a tensor.
  std::span<const Box> boxes(std::size_t tensor) const { return boxes_[tensor]; }
  /// Those of all ranks that may have elements of a block of what it is read from; valid as long as the plan.
  std::vector<const Holding*> holdings_with(const PieceBlock& block, std::size_t tensor);
  /// The smallest box of the stored tensor that has the elements of a block.
  Box box_around_block(const PieceBlock& block) const;

 private:
  struct Kind {  // tensors of one layout
    const Layout* layout = nullptr;
    std::map<Rank, Holding> holdings;  // those that were asked for, by one of the ranks
  };
  void plan_stored(std::span<const std::size_t> wanted);
  SharedBytes& shared_bytes(const std::vector<Rank>& needed_by, std::size_t file);
  void choose_owners();
  Box region_of(std::size_t tensor, const Box& box) const;
  const Holding& holding_of(std::size_t tensor, Rank rank);
  const CheckpointReader& reader_;
  std::span<const SharedTensor> tensors_;
  Rank rank_;
  std::vector<std::size_t> by_stored_;   // numbers of tensors, ordered by what they are read from
  std::vector<std::vector<Box>> boxes_;  // by tensor
  std::deque<Kind> kinds_;
  std::vector<Kind*> kind_of_;              // by tensor; null: not asked for yet
  std::vector<std::vector<Rank>> readers_;  // by file; empty where all ranks can read all
  std::vector<std::size_t> readable_;       // files that this rank can read for others
  std::map<std::vector<Rank>, std::map<std::vector<Rank>, SharedBytes>> shared_;  // by who needs, by who may read
  std::vector<NeededBlock> own_, of_others_;
  std::size_t largest_ = 0;
  std::size_t most_packed_ = 0;
};

}  // namespace lockstep
