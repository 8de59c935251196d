// Prints the plan of a run without training: --dry-run, --print-program, --print-layout, --print-groups,
// --print-components, --plot-program, --plot-schedule. The plan: train/train_plan.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Returns whether one of these options is given. Throws Error(usage) for options that apply only to them if none is.
bool asks_for_plan(const TrainConfig& config, const CommonOptions& common);

/// Prints the answer, for the ranks of --world-size, the number that parallel.* needs, or the started ranks. Returns
/// the exit code. Collective over the session's world. Throws as make_train_plan does.
int answer_from_plan(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
