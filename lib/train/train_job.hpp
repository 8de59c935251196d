// The body of train: from a configuration to a finished, stopped or refused run. Start here to read how training works:
// this file's source is the order of events, train/loop.hpp the loop, engine/engine.hpp one step.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Returns 0 when all steps are done, 75 when the run was stopped and saved, 1 when a second request left unsaved
/// work behind. With --dry-run, --print-program or --eval-only it prints and returns 0. Collective over the session's
/// world; failures are agreed Errors.
int train(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
