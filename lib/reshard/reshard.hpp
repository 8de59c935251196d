// The body of checkpoint-reshard: a checkpoint written anew with another number of parts. Serial, streaming, without
// LibTorch: it reads with the reader that loads use, and plans and commits as saves do. Resuming on other ranks needs
// none of this: loads read any layout.
#pragma once

#include "app/output.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/session.hpp"
#include "config/reshard_config.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/checkpoint_reader.hpp"

#include <cstdint>

namespace lockstep {

/// The checkpoint's state shared out over `parts` writers, each with a part file of its own; tensors keep their
/// layouts. State that belongs to single ranks or nodes is spread over the writers as well. Pure.
CheckpointPlan plan_reshard(const CheckpointReader& source, int parts);

struct Resharded {
  Hash128 before;           // state digest of the source
  Hash128 after;            // of the result; equal to `before`, or nothing was published
  std::uint64_t bytes = 0;  // that were copied
};

/// Carries the plan out: every block is checked as it is read, no more than one piece is in memory, and `output`
/// appears complete or not at all. Local. Throws Error(usage) if `output` exists, Error(input) for damage in the
/// source, Error(storage).
Resharded reshard(const CheckpointReader& source, const CheckpointPlan& plan, const Path& output);

/// The tool: reads what the configuration names, a checkpoint or a run's newest sound one, and prints what was written,
/// or with --dry-run would be. Returns the exit code. Local. Throws Error(input) if there is nothing to read; else as
/// the parts say.
int checkpoint_reshard(const ReshardConfig& config, Session& session, Output& output);

}  // namespace lockstep
