// The device of a run: which one each rank computes on, agreed before the plan.
#pragma once

#include "comm/communicator.hpp"
#include "config/train_config.hpp"
#include "train/train_plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The devices of a run.
struct RunDevices {
  std::string chosen;  // the device of this rank and the reason for it, for people
  // of each rank, for people: "node-a, device 0, GPU-8b23, NUMA node 1"; empty on the CPU
  std::vector<std::string> of_ranks;
  std::string transport;  // how ranks exchange memory of devices, for people; empty on the CPU
};

/// Opens the device that train.device asks for, and registers its kernels; with auto, a GPU if every rank has one.
/// --check-device needs one unless train.device is cpu. `hosts` has the host name of each rank: rank i of a machine
/// takes its device i, or the only one that it sees. Ranks beyond the devices share them in turn, and then exchange
/// through host memory; otherwise they use NCCL if there is one. With parallel.transport nccl, ranks may share a device
/// only if the environment has an NCCL_HOSTID, which must differ between them. The threads of a rank that the launcher
/// did not bind then run on the NUMA node of its device. Collective over `world`; before the first tensor. Throws
/// Error(usage) if train.device cuda, --check-device or parallel.transport nccl has no plug-in or no device, and
/// Error(resources) if only some ranks have a device, or if parallel.transport nccl is not possible.
RunDevices open_device(const TrainConfig& config, Communicator& world, const std::vector<std::string>& hosts);

/// Throws Error(usage) if the device in use has no kernels for a part of the configuration. Local.
void require_device_kernels(const TrainConfig& config, const TrainPlan& plan);

/// Returns the device that a plan without a job is for: the one that log.peak_device names, unless train.device is cpu.
/// Not set: the CPU. Local. Throws Error(usage) if train.device cuda or parallel.transport nccl comes without a name.
/// The options that print a part of the plan need none: the device is any GPU then, and its memory has no limit.
std::optional<DeviceOfPlan> device_planned_for(const TrainConfig& config);

}  // namespace lockstep
