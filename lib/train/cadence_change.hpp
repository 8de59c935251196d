// How often a running job logs, evaluates and saves may be changed by its control file: the options that say so, and
// what becomes of a configuration. All ranks make the same change after the same step: train/loop.hpp.
#pragma once

#include "comm/stop.hpp"
#include "config/train_config.hpp"
#include "train/train_plan.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Their names.
std::vector<std::string> cadence_options();

/// Changes the configuration, and returns what is said of it: "log.every: 10 steps until here, 5 steps from here on".
/// Pure. Throws Error(usage), with the configuration as it was, where the value is none of the option's, where other
/// options contradict it, or where the plan has nothing to evaluate.
std::string change_cadence(TrainConfig& config, const TrainPlan& plan, const StopChannels::Change& change);

}  // namespace lockstep
