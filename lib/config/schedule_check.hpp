// Rules for the options of the learning-rate schedule.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

namespace lockstep {

/// Adds a problem for each contradiction. Local, pure.
void check_schedule(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
