// The seed of a run that does not say one (train.seed -1): drawn when it begins, and kept with its checkpoints.
#pragma once

#include "comm/communicator.hpp"
#include "config/settings.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// The configuration with a seed: the one that it says, or that of the checkpoints that the run goes on from, or else
/// one that rank 0 draws. Collective over `world`.
TrainConfig with_seed(const TrainConfig& config, Communicator& world);

/// The settings of a configuration as the run is recorded: with the seed that was drawn. Local.
Settings with_seed(Settings settings, const TrainConfig& config);

}  // namespace lockstep
