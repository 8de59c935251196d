// Rules for the options optimizer.*.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

namespace lockstep {

/// Adds a problem for each contradiction between these options, and between them and the ends of steps. Local, pure.
void check_optimizer(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
