// The configurations of train --eval-only and train --sample: options that only training uses have no effect, so none
// of them is needed. The bodies: train/eval_only.hpp, train/sample_only.hpp.
#pragma once

#include "config/train_config.hpp"

namespace lockstep {

/// Returns the configuration with plain values for all options that an evaluation does not use: optimizer, schedule,
/// length, saves, records, callbacks, activation checkpointing, the pipeline schedule, and the training data if
/// eval.datasets is set. Pure.
TrainConfig evaluation_alone(const TrainConfig& given);

/// Returns likewise the configuration for continuing texts: without data and evaluations too, and along other parallel
/// axes than pp, tp and ep with as many ranks as these leave. sample.prompts are the texts of --sample. Pure.
TrainConfig sampling_alone(const TrainConfig& given);

/// Returns one of the two if the options ask for it, else the configuration as it is. Pure.
TrainConfig without_training(const TrainConfig& given);

}  // namespace lockstep
