// Describes the components of a run's checkpoints from its plan alone: --print-components. The components themselves:
// train/components.hpp.
#pragma once

#include "config/train_config.hpp"
#include "program/dry_run.hpp"
#include "train/train_plan.hpp"

#include <string>

namespace lockstep {

/// Returns a line for each component: tensors and their bytes, the ranks that hold the same, the numbers of cells,
/// holders and writers, the comparison in a save, and how other ranks load it. Local. Throws Error(usage) as a save
/// would.
std::string component_table(const TrainConfig& config, const TrainPlan& plan, const Placement& placement);

}  // namespace lockstep
