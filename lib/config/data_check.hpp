// Rules over the options of train that say what it reads: datasets, samples and their order. The other rules:
// train_check.cpp.
#pragma once

#include "config/problems.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// Adds what contradicts itself. Local, pure; opens no file.
void check_data(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
