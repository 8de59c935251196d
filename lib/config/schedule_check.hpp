// What contradicts itself among the options of the learning rate.
#pragma once

#include "config/problems.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Adds it. Local, pure.
void check_schedule(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
