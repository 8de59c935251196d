// The body of train --eval-only: the loss of a checkpoint without a step.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Evaluates the checkpoint that checkpoint.resume names (without one the weights of model.path) and prints an eval
/// record for each set on standard output, on rank 0. Writes no file and takes no lock: a run may go on beside it.
/// Returns 0. Collective over the session's world; failures are agreed Errors: Error(input) where there is nothing to
/// evaluate, Error(numerics) after the record if a loss is not finite.
int evaluate_only(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
