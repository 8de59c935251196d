#include "train/run_device.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device_plugin.hpp"
#include "tensor/functions/kernel_table.hpp"
#include "tensor/live_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

namespace lockstep {

namespace {

/// The device of this rank, or why it has none.
struct DeviceOfRank {
  std::optional<int> index;
  std::string reason;
};

DeviceOfRank find_device_of_rank(int local_rank) {
  DevicePlugin* const plugin = device_plugin();
  if (plugin == nullptr)
    return {{}, fmt::format("there is no {} in libexec/lockstep beside the programs", DevicePlugin::file)};
  try {
    const auto count = std::ssize(plugin->devices());
    if (local_rank < count) return {local_rank, {}};
    return {{}, fmt::format("this is rank {} of a machine with {} devices", local_rank, count)};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

/// What no device runs yet; empty: nothing of this configuration.
std::string unsupported(const TrainConfig& config) {
  if (config.calibrate) return "--calibrate";
  if (config.log.profile_start_step) return "profiles of steps";
  return {};
}

}  // namespace

std::string open_device(const TrainConfig& config, Communicator& world, const std::vector<std::string>& hosts) {
  if (config.train.device == DeviceChoice::cpu) return "the CPU (train.device)";
  const bool asked = config.train.device == DeviceChoice::cuda;
  const auto mine = hosts.begin() + world.rank();
  DeviceOfRank found;
  together(world, "find a device",
           [&] { found = find_device_of_rank(static_cast<int>(std::count(hosts.begin(), mine, *mine))); });
  std::vector<std::string> without;
  std::string reason;
  int rank = 0;
  for (const std::string& told : world.all_gather(found.reason)) {
    if (!told.empty()) {
      if (reason.empty()) reason = told;
      without.push_back(std::to_string(rank));
    }
    ++rank;
  }
  if (std::ssize(without) == world.size()) {
    if (!asked) return fmt::format("the CPU ({})", reason);
    throw AgreedError(Error(ExitCode::usage, fmt::format("train.device cuda finds no device: {}", reason),
                            "build and install the plug-in, start on a machine with a GPU, or set train.device cpu"),
                      0);
  }
  if (!without.empty())
    throw AgreedError(Error(ExitCode::resources,
                            fmt::format("only some ranks have a device; without one: {} {}: {}",
                                        without.size() == 1 ? "rank" : "ranks", join(without, ", "), reason),
                            "start as many ranks on each machine as it has devices, or set train.device cpu"),
                      0);
  if (const std::string what = unsupported(config); !what.empty()) {
    if (!asked) return fmt::format("the CPU (no device runs {} yet)", what);
    throw AgreedError(
        Error(ExitCode::usage, fmt::format("train.device cuda does not run {} yet", what), "set train.device cpu"), 0);
  }
  std::string name;
  together(world, "open the device", [&] {
    const KernelTables of_cpu = cpu_kernels();
    std::unique_ptr<Device> device =
        device_plugin()->open(*found.index, [](std::int64_t bytes) { count_live_bytes(bytes); });
    register_kernels(static_cast<at::DeviceType>(device->properties().tensor_type),
                     *static_cast<const KernelTables*>(device_plugin()->kernels(&of_cpu)));
    name = fmt::format("{} ({})", device->properties().name, asked ? "train.device" : "every rank has a device");
    use_device(std::move(device));
  });
  return name;
}

void refuse_plan_for_device(const TrainConfig& config) {
  if (config.train.device == DeviceChoice::cuda)
    throw Error(ExitCode::usage, "a plan for train.device cuda needs a job: --dry-run plans for the CPU alone",
                "set train.device cpu or auto");
}

}  // namespace lockstep
