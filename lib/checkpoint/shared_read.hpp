// Ranks read a checkpoint together. Each stored block is read and checked by one of the ranks that need it, and this
// rank sends the others their parts. How readers are chosen: checkpoint/read_plan.hpp. Reading by one process:
// store/checkpoint_reader.hpp.
#pragma once

#include "checkpoint/node_view.hpp"
#include "checkpoint/read_plan.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_reader.hpp"

#include <span>
#include <string_view>

namespace lockstep {

/// Fills the local boxes of `tensors`, which are as ReadPlan requires. Each rank reads and hashes with `threads`
/// threads, at least two. If not all ranks can read all files, `access` says which ranks can, and the readers of the
/// other ranks must have the tables (share_tables).
/// Collective over `ranks`. A rank that cannot read a block still takes part in all messages; then all ranks throw one
/// Error, as CheckpointReader does, with `what` in front, and the content of the boxes is undefined.
void read_together(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors,
                   int threads, std::string_view what, const FileAccess& access = {});

/// Sends the tables of files that only some ranks can read to the others. Collective over `ranks`. Throws as
/// CheckpointReader does.
void share_tables(Communicator& ranks, const CheckpointReader& reader, const FileAccess& access, std::string_view what);

}  // namespace lockstep
