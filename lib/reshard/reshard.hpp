// The body of checkpoint-reshard: a checkpoint, an average of several, or weights of a Hugging Face folder, written
// anew in other parts, as another mesh would write it, or in part, by one process or several. Streaming, without
// LibTorch: it reads with the reader that loads use, and plans and commits as saves do. Resuming on other ranks needs
// none of this: loads read any layout.
#pragma once

#include "app/output.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "comm/session.hpp"
#include "config/reshard_config.hpp"
#include "reshard/new_state.hpp"
#include "reshard/state_source.hpp"
#include "store/checkpoint_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What the configuration makes of a source, and the parts that it will lie in.
struct ReshardPlan {
  NewState state;
  CheckpointPlan parts;
  bool on_mesh = false;           // laid out for the ranks of a mesh, which the writers are
  std::vector<std::string> cast;  // full names of the tensors that get another type
  std::optional<Hash128> before;  // digest of what is kept of the source; nothing where that is only made
};

/// Local: reads small values of the source at most. Throws Error(usage) for what cannot be laid out or kept so.
ReshardPlan plan_reshard(const StateSource& source, const ReshardConfig& config);

struct Resharded {
  Hash128 digest;           // of the result; equal to ReshardPlan::before where no tensor was cast
  std::uint64_t bytes = 0;  // that were written
};

/// Carries the plan out: every block is checked as it is read, each tensor that is as it was has its old fingerprint or
/// nothing is published, and `output` appears complete or not at all, with the same bytes from any number of ranks.
/// Collective over the session's world. Throws Error(usage) if `output` exists, Error(input) for damage in the source,
/// Error(storage), and Error(verdict) after a request to stop.
Resharded reshard(Session& session, const StateSource& source, const ReshardPlan& plan, const Path& output,
                  std::uint64_t memory);

/// The tool: reads what the configuration names, of runs their newest sound checkpoint, and prints what was written,
/// or with --dry-run would be. Returns the exit code. Collective over the session's world. Throws Error(input) if there
/// is nothing to read; else as the parts say.
int checkpoint_reshard(const ReshardConfig& config, Session& session, Output& output);

}  // namespace lockstep
