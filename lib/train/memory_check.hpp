// Checks whether a run fits into the memory of its machines, before any weight is allocated: the kernel kills a process
// that takes too much without a message. The memory of a rank follows from the step programs.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "program/memory_fit.hpp"
#include "train/train_plan.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Returns the bytes of the machine's memory that `rank` needs at most while it loads, trains, evaluates and saves.
/// Local.
std::int64_t memory_needed(const TrainPlan& plan, Rank rank);
/// Returns the bytes of plan.device that tensors of `rank` need at most. Local.
std::int64_t device_memory_needed(const TrainPlan& plan, Rank rank);
/// Returns the bytes of plan.device that NCCL takes for the communicators of `rank`, as estimated. Local.
std::int64_t communicator_memory(const TrainPlan& plan, Rank rank);

/// With checkpoint.background auto, makes saves synchronous if the ranks of a machine have no memory for copies of
/// their state. Collective over `world`.
void choose_background(Communicator& world, Background background, TrainPlan& plan, MemoryCompared compared);

/// Throws AgreedError(resources) with the arithmetic if the ranks of a machine or of a control group need more than is
/// available there, or if the ranks on a device need more than is free there. Collective over `world`.
void require_memory(Communicator& world, const TrainPlan& plan);

/// Shortage describes memory that is missing, with the arithmetic, and how a run needs less.
struct Shortage {
  std::string text;
  std::string hint;
};

/// For --dry-run: returns the shortage if a rank needs more than plan.device has, else nothing. Local.
std::optional<Shortage> device_shortage(const TrainPlan& plan);

/// For --dry-run: returns the shortage if the ranks of `plan` need more than the total memory, else nothing. A plan for
/// another number of ranks is compared as if all its ranks ran on this machine. Collective over `world`.
std::optional<Shortage> memory_warning(Communicator& world, const TrainPlan& plan);

}  // namespace lockstep
