// Ranks read a checkpoint together: each stored block is read and checked by one of the ranks that need it, which hands
// the others their parts of it. Who reads what: checkpoint/read_plan.hpp. A rank on its own:
// store/checkpoint_reader.hpp.
#pragma once

#include "checkpoint/node_view.hpp"
#include "checkpoint/read_plan.hpp"
#include "comm/communicator.hpp"
#include "store/checkpoint_reader.hpp"

#include <span>
#include <string_view>

namespace lockstep {

/// Fills the local boxes. `tensors` are as ReadPlan says; `threads` of this rank, two at least, read and hash. Where
/// not all ranks can read all files, `access` says which of them can, and the readers of the others know the tables
/// (share_tables).
/// Collective over `ranks`. A rank that cannot read a block goes through all messages nevertheless; then all ranks
/// throw one Error, as CheckpointReader does, with `what` before it. The boxes hold anything then.
void read_together(Communicator& ranks, const CheckpointReader& reader, std::span<const SharedTensor> tensors,
                   int threads, std::string_view what, const FileAccess& access = {});

/// Tells all ranks the tables of the files that not all of them can read. Collective over `ranks`. Throws as
/// CheckpointReader does.
void share_tables(Communicator& ranks, const CheckpointReader& reader, const FileAccess& access, std::string_view what);

}  // namespace lockstep
