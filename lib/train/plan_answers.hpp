// What train answers from the plan of a run, without training: --dry-run, --print-program, --print-layout,
// --print-groups, --print-components, --plot-program.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Whether one of these is asked for. Throws Error(usage) for options that say how it is answered if none is.
bool asks_for_plan(const TrainConfig& config, const CommonOptions& common);

/// Prints it: for the ranks of --world-size, as many as parallel.* says, or those that were started. Returns the exit
/// code. Collective over the session's world. Throws what make_train_plan throws.
int answer_from_plan(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
