// Rules for the options of train that select data: datasets, samples and their order. Rules for other options:
// train_check.cpp.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

namespace lockstep {

/// Adds a problem for each contradiction between data options. Local, pure; opens no file.
void check_data(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
