// Which tensors the optimizer treats alike, in words: --print-groups. Pure.
#pragma once

#include "config/train_config.hpp"
#include "train/train_plan.hpp"

#include <string>

namespace lockstep {

/// A line for each update rule, learning rate and weight decay: which option says so, how many tensors and elements
/// have them, and the name of one. What is frozen comes last.
std::string groups_text(const TrainConfig& config, const TrainPlan& plan);

}  // namespace lockstep
