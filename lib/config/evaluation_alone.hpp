// The configuration of train --eval-only: options that only training uses have no effect, so none of them is needed.
// The body: train/eval_only.hpp.
#pragma once

#include "config/train_config.hpp"

namespace lockstep {

/// Returns the configuration with plain values for all options that an evaluation does not use: optimizer, schedule,
/// length, saves, records, callbacks, activation checkpointing, the pipeline schedule, and the training data if
/// eval.datasets is set. Pure.
TrainConfig evaluation_alone(const TrainConfig& given);

}  // namespace lockstep
