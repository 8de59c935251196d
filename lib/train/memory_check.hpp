// Whether a run fits into the memory of its machines, asked before a weight exists: a process that takes too much is
// killed by the kernel without a word. What a rank needs is read off the step programs.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "program/memory_fit.hpp"
#include "train/train_plan.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Where checkpoint.background is auto, saves are waited for if the ranks of a machine have no room for copies of their
/// state. Collective over `world`.
void choose_background(Communicator& world, Background background, TrainPlan& plan, MemoryCompared compared);

/// Throws AgreedError(resources) with the arithmetic if the ranks of a machine or of a control group need more than is
/// available there. Collective over `world`.
void require_memory(Communicator& world, const TrainPlan& plan);

/// In what the ranks of `plan` exceed all the memory that there is, for --dry-run; nothing if they do not. A plan for
/// another number of ranks than were started is compared as if all of them ran on this machine. Collective over
/// `world`.
std::optional<std::string> memory_warning(Communicator& world, const TrainPlan& plan);

}  // namespace lockstep
