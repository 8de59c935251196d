// Rules for the options of section log, and the peak rate that they give.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

#include <optional>

namespace lockstep {

/// Adds a problem for each contradiction. Local, pure.
void check_log(const TrainConfig& config, Problems& problems);

/// Returns the peak FLOP/s of a rank's hardware, from log.peak_tflops, else from log.peak_device; nothing if neither
/// gives one. Local.
std::optional<double> peak_flops_per_s(const TrainConfig& config);

}  // namespace lockstep
