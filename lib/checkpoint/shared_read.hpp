// Ranks read a checkpoint together: each stored block is read and checked by one of the ranks that need it, which hands
// the others their parts of it. Who reads what follows from the checkpoint and from what each rank holds: every rank
// works it out for itself. A rank on its own: store/checkpoint_reader.hpp.
#pragma once

#include "checkpoint/node_view.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/state_tree.hpp"
#include "store/write_plan.hpp"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

/// What is read of a stored tensor.
struct SharedTensor {
  std::size_t stored = 0;             // number in Manifest::tensors
  Shape as;                           // what the boxes are of: the stored shape, or a view of its elements
  std::span<const Holding> holdings;  // who needs which boxes; equal on all ranks
  std::vector<StateBox> local;        // where this rank wants them; what has no place here is dropped
};

/// Blocks that a rank holds at a time as their reader, as many again packed for others, and messages that it receives:
/// all together at most 192 MiB, more only where a tensor is wanted under several names at once.
inline constexpr std::size_t blocks_in_work = 8;

/// Fills the local boxes. `tensors` are equal on all ranks but for `local`; `threads` of this rank, two at least, read
/// and hash. Where not all ranks can read all files, `access` says which of them can: a block that none of these needs
/// is read by one of them for the others, and the readers of the others know the tables (share_tables).
/// Collective over `ranks`. A rank that cannot read a block goes through all messages nevertheless; then all ranks
/// throw one Error, as CheckpointReader does, with `what` before it. The boxes hold anything then.
void read_together(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors,
                   int threads, std::string_view what, const FileAccess& access = {});

/// Tells all ranks the tables of the files that not all of them can read. Collective over `ranks`. Throws as
/// CheckpointReader does.
void share_tables(Communicator& ranks, const CheckpointReader& reader, const FileAccess& access, std::string_view what);

}  // namespace lockstep
