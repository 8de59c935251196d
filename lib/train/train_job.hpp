// The body of train: from a configuration to a finished, stopped or refused run. Start here to read how training works:
// the source of this file shows the order of events, train/loop.hpp the loop, engine/engine.hpp one step.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Returns 0 if all steps are done, 75 if the run was stopped with its progress saved or while data was prepared, 1 if
/// a second request left unsaved work behind. With --eval-only, --sample, --calibrate, --check-device or an option that
/// prints the plan it prints and returns 0. Collective over the session's world. Failures are agreed Errors.
int train(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
