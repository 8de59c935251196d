// Changes how often a running job logs, evaluates and saves, as its control file asks: the options that may change, and
// their effect on the configuration. All ranks make the same change after the same step: train/loop.hpp.
#pragma once

#include "comm/stop.hpp"
#include "config/train_config.hpp"
#include "train/train_plan.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Returns the names of the options that may change.
std::vector<std::string> cadence_options();

/// Changes the configuration and returns a message: "log.every: 10 steps until here, 5 steps from here on". Pure.
/// Throws Error(usage), with the configuration unchanged, if the value is invalid, if other options contradict it, or
/// if the plan has nothing to evaluate.
std::string change_cadence(TrainConfig& config, const TrainPlan& plan, const StopChannels::Change& change);

}  // namespace lockstep
