// The body of checkpoint-reshard. It rewrites a checkpoint, an average of several, or the weights of a Hugging Face
// folder: into other part files, for another mesh, or in part, by one process or several. It streams and needs no
// LibTorch: it reads with the reader of loads, and plans and commits as saves do. Resuming on other ranks does not need
// it, because loads read any layout.
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

/// The new state that the configuration asks for, and its part files.
struct ReshardPlan {
  NewState state;
  CheckpointPlan parts;
  bool on_mesh = false;           // laid out for the ranks of a mesh, which are the writers of the plan
  std::vector<std::string> cast;  // full names of tensors that get another type
  std::optional<Hash128> before;  // digest of the kept state in the source; not set if tensors are computed
};

/// Plans a reshard; reads at most small values of the source. Local. Throws Error(usage) if the state cannot be laid
/// out or kept as asked.
ReshardPlan plan_reshard(const StateSource& source, const ReshardConfig& config);

struct Resharded {
  Hash128 digest;           // of the result; equals ReshardPlan::before unless tensors were cast
  std::uint64_t bytes = 0;  // bytes written
};

/// Executes the plan. Every block is checked as it is read. If a tensor that should not change has another fingerprint,
/// nothing is published. `output` appears complete or not at all, with the same bytes from any number of ranks.
/// Collective over the session's world. Throws Error(usage) if `output` exists, Error(input) for damage in the source,
/// Error(storage), and Error(verdict) after a stop request.
Resharded reshard(Session& session, const StateSource& source, const ReshardPlan& plan, const Path& output,
                  std::uint64_t memory);

/// Runs the tool: reads the sources of the configuration (of a run its newest sound checkpoint), writes the result, and
/// prints a report. With --dry-run it prints the plan instead. Returns the exit code. Collective over the session's
/// world. Throws Error(input) if there is nothing to read, and as plan_reshard and reshard do.
int checkpoint_reshard(const ReshardConfig& config, Session& session, Output& output);

}  // namespace lockstep
