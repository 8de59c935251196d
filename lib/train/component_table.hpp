// What a checkpoint of a run is made of, from its plan alone: --print-components. What a run saves:
// train/components.hpp.
#pragma once

#include "config/train_config.hpp"
#include "program/dry_run.hpp"
#include "train/train_plan.hpp"

#include <string>

namespace lockstep {

/// A line for each component: tensors and their bytes, which ranks hold the same, by how many it is written and held,
/// how a save compares them, and what becomes of it on other ranks. Local. Throws Error(usage) as a save would.
std::string component_table(const TrainConfig& config, const TrainPlan& plan, const Placement& placement);

}  // namespace lockstep
