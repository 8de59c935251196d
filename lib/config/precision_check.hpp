// Rules for the options precision.*.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

namespace lockstep {

/// Adds a problem for each contradiction between these options, and between them and the optimizer's. Local, pure.
void check_precision(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
