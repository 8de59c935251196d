// The device of a run: which one each rank computes on, agreed before the plan.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Opens the device that train.device asks for, and registers its kernels; with auto, a GPU if every rank has one.
/// `hosts` has the host name of each rank: rank i of a machine takes its device i. Returns the device and the reason
/// for it, for people. Collective over `world`; before the first tensor. Throws Error(usage) if train.device cuda has
/// no plug-in, no device, or an option that no device runs yet, and Error(resources) if only some ranks have a device.
std::string open_device(const TrainConfig& config, Communicator& world, const std::vector<std::string>& hosts);

/// Refuses to plan for a device of which no rank has one. Local. Throws Error(usage).
void refuse_plan_for_device(const TrainConfig& config);

}  // namespace lockstep
