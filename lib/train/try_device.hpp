// The body of train --check-device: each kernel that a configuration needs runs on the device of each rank and is
// compared with the CPU's in fp64, and is timed at the sizes of the configuration. The trials: trial/trials.hpp.
#pragma once

#include "app/output.hpp"
#include "base/json_fwd.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "trial/trial_sizes.hpp"

#include <string>

namespace lockstep {

struct TrainPlan;

/// Returns the sizes and settings with which a rank of the plan calls its kernels. Pure.
trial::TrialSizes trial_sizes(const TrainConfig& config, const TrainPlan& plan);

/// Returns the report of a device as a table for people. Pure.
std::string report_text(const Json& report);

/// Checks the device of each rank and prints a report of each kind of device on rank 0: that of the rank with the worst
/// kernel. It reads no data and writes no file. Returns 0. Collective over the session's world. Throws
/// AgreedError(verdict) naming the worst kernel if one is beyond its bounds on any rank, and Error(usage) if a device
/// lacks one.
int check_device(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
