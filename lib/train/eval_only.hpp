// The body of train --eval-only: evaluates a checkpoint without training. Evaluations during training:
// train/run_evaluations.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// `config` is the result of evaluation_alone (config/without_training.hpp). Evaluates the checkpoint named by
/// checkpoint.resume (without one, the weights of model.path) and prints an eval record for each set on standard
/// output, on rank 0. It writes no file and takes no lock, so a run may continue at the same time. Returns 0.
/// Collective over the session's world. Failures are agreed Errors: Error(input) if there is nothing to evaluate,
/// Error(numerics) after the records if a loss is not finite.
int evaluate_only(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
