// Prints the tensors in groups that the optimizer treats alike: --print-groups. Pure.
#pragma once

#include "config/train_config.hpp"
#include "train/train_plan.hpp"

#include <string>

namespace lockstep {

/// Returns a line for each combination of update rule, learning rate and weight decay: the option that selects it, the
/// numbers of tensors and elements, and the name of one tensor. Frozen tensors come last.
std::string groups_text(const TrainConfig& config, const TrainPlan& plan);

}  // namespace lockstep
