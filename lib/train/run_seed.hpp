// The seed of a run that sets none (train.seed -1): it is drawn when the run begins and stored in its checkpoints.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "options/settings.hpp"

namespace lockstep {

/// Returns the configuration with a seed: the configured one, else the one stored in the checkpoints that the run
/// continues, else one drawn by rank 0. Collective over `world`.
TrainConfig with_seed(const TrainConfig& config, Communicator& world);

/// Returns the recorded settings of a run, with the seed that was drawn. Local.
Settings with_seed(Settings settings, const TrainConfig& config);

}  // namespace lockstep
