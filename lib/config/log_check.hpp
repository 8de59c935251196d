// What contradicts itself among the options of section log, and what they come to.
#pragma once

#include "config/problems.hpp"
#include "config/train_config.hpp"

#include <optional>

namespace lockstep {

/// Adds what contradicts itself. Local, pure.
void check_log(const TrainConfig& config, Problems& problems);

/// FLOP/s that the hardware of one rank reaches at most, as log.peak_tflops or log.peak_device say; absent: nothing is
/// said. Local.
std::optional<double> peak_flops_per_s(const TrainConfig& config);

}  // namespace lockstep
