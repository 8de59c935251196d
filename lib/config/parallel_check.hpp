// Rules for the options that divide a step among ranks: parallel.* and post_local_sgd.*.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

namespace lockstep {

/// Adds a problem for each contradiction between these options, and between them and the options of data and samples.
/// Local, pure. Rules about the number of ranks are checked when the mesh is made.
void check_parallel(const TrainConfig& config, Problems& problems);

}  // namespace lockstep
