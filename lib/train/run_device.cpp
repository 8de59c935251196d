#include "train/run_device.hpp"

#include "base/error.hpp"
#include "base/processors.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "config/start_up.hpp"
#include "device/device_plugin.hpp"
#include "report/device_peaks.hpp"
#include "tensor/functions/kernel_names.hpp"
#include "tensor/live_memory.hpp"
#include "train/kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep {

namespace {

/// Why a rank has no device, or no NCCL.
struct Lack {
  std::string reason;  // empty: nothing is missing
  std::string hint;    // how to get it; may be empty
};

/// The device of this rank, or why it has none.
struct DeviceOfRank {
  int index = 0;
  std::string uuid;
  Lack lack;
};

/// The paths at which the plug-in is searched: in folders that exist, or all if none does.
std::string places_of_plugin() {
  std::vector<std::string> existing, all;
  for (const std::filesystem::path& place : device_plugin_places()) {
    std::error_code unknown;
    all.push_back(place.string());
    if (std::filesystem::is_directory(place.parent_path(), unknown)) existing.push_back(all.back());
  }
  return join(existing.empty() ? all : existing, ", ");
}

DeviceOfRank find_device_of_rank(int local_rank, RankTransport transport) {
  DevicePlugin* const plugin = device_plugin();
  if (plugin == nullptr)
    return {.uuid = {},
            .lack = {.reason = fmt::format("the plug-in {} is missing", DevicePlugin::file),
                     .hint = fmt::format("scripts/setup --cuda=build, then make programs, builds the plug-in; it is "
                                         "searched as {}",
                                         places_of_plugin())}};
  try {
    const std::vector<DeviceProperties> devices = plugin->devices();
    const bool is_bound = devices.size() == 1;  // by a scheduler, which shows each rank one device
    auto index = is_bound ? 0 : static_cast<std::size_t>(local_rank);
    const bool may_share = transport != RankTransport::nccl || std::getenv("NCCL_HOSTID") != nullptr;
    if (may_share && !devices.empty()) index %= devices.size();
    if (index < devices.size()) return {.index = static_cast<int>(index), .uuid = devices[index].uuid, .lack = {}};
    return {.uuid = {},
            .lack = {.reason = fmt::format("this is rank {} of a machine with {} devices", local_rank, devices.size()),
                     .hint = devices.empty() ? "start on a machine with a GPU"
                                             : "start as many ranks on each machine as it has devices"}};
  } catch (const Error& error) {
    return {.uuid = {}, .lack = {.reason = error.what(), .hint = error.hint()}};
  }
}

/// The hint of a refusal: how to get what is missing, or to do without.
std::string hint_of(const Lack& lack, std::string_view otherwise) {
  return lack.hint.empty() ? std::string(otherwise) : fmt::format("{}; or {}", lack.hint, otherwise);
}

/// The first two ranks that have one device, in words; empty if each rank has its own. Collective over `world`.
std::string shared_device(const DeviceOfRank& mine, Communicator& world, const std::vector<std::string>& hosts) {
  std::map<std::pair<std::string, std::string>, int> owners;
  int rank = 0;
  for (const std::string& uuid : world.all_gather(mine.uuid)) {
    const std::string& host = hosts[static_cast<std::size_t>(rank)];
    const auto [owner, is_first] = owners.try_emplace({host, uuid}, rank);
    if (!is_first) return fmt::format("ranks {} and {} on {} share the device {}", owner->second, rank, host, uuid);
    ++rank;
  }
  return {};
}

/// The lack of each rank. Collective over `world`.
std::vector<Lack> gather_lacks(const Lack& mine, Communicator& world) {
  std::vector<Lack> all;
  for (std::string& reason : world.all_gather(mine.reason)) all.push_back({.reason = std::move(reason), .hint = {}});
  auto lack = all.begin();
  for (std::string& hint : world.all_gather(mine.hint)) (lack++)->hint = std::move(hint);
  return all;
}

/// The first of them with a reason; without one if none has any.
Lack first_lack(const std::vector<Lack>& lacks) {
  const auto found = std::ranges::find_if(lacks, [](const Lack& lack) { return !lack.reason.empty(); });
  return found == lacks.end() ? Lack{} : *found;
}

std::string version_text(int version) {
  constexpr int major = 10000, minor = 100;  // 22809 is 2.28.9
  return fmt::format("NCCL {}.{}.{}", version / major, version % major / minor, version % minor);
}

/// Chooses how ranks exchange memory of their devices, and says which way and why. Collective over `world`.
std::string choose_transport(RankTransport asked, const std::string& shared, Communicator& world) {
  if (world.size() == 1) return "none: there is one rank";
  if (asked == RankTransport::host) return "through host memory (parallel.transport)";
  const NcclTable* nccl = nullptr;
  Lack lack;
  if (shared.empty() || (asked == RankTransport::nccl && std::getenv("NCCL_HOSTID") != nullptr)) {
    try {
      nccl = &device_plugin()->nccl();
    } catch (const Error& error) {
      lack = {.reason = error.what(), .hint = error.hint()};
    }
  } else {
    lack = {.reason = shared, .hint = "start as many ranks on each machine as it has devices"};
  }
  lack = first_lack(gather_lacks(lack, world));
  if (lack.reason.empty()) {
    use_nccl(nccl);
    return fmt::format("from device to device, {}", version_text(nccl->version));
  }
  if (asked == RankTransport::nccl)
    throw AgreedError(
        Error(ExitCode::resources, fmt::format("parallel.transport nccl is not possible: {}", lack.reason),
              hint_of(lack, "set parallel.transport host")),
        0);
  return fmt::format("through host memory ({})", lack.reason);
}

/// Memory that these threads pin afterwards lies on their NUMA node, as Linux gives memory to who touches it first.
void stay_near(int numa_node) {
  if (numa_node >= 0 && !is_bound_by_launcher()) use_processors(processors_of_numa_node(numa_node));
}

}  // namespace

RunDevices open_device(const TrainConfig& config, Communicator& world, const std::vector<std::string>& hosts) {
  const RankTransport transport = config.parallel.transport;
  if (config.train.device == DeviceChoice::cpu)
    return {.chosen = "the CPU (train.device)", .of_ranks = {}, .transport = {}};
  const bool is_named = config.train.device == DeviceChoice::cuda;
  const bool asked = is_named || config.check_device;  // a check of the processor alone is asked for by name
  const auto mine = hosts.begin() + world.rank();
  DeviceOfRank found;
  together(world, "find a device",
           [&] { found = find_device_of_rank(static_cast<int>(std::count(hosts.begin(), mine, *mine)), transport); });
  const std::vector<Lack> lacks = gather_lacks(found.lack, world);
  std::vector<std::string> without;
  for (std::size_t rank = 0; rank < lacks.size(); ++rank)
    if (!lacks[rank].reason.empty()) without.push_back(std::to_string(rank));
  const Lack lack = first_lack(lacks);
  const bool needs_nccl = transport == RankTransport::nccl;
  if (std::ssize(without) == world.size()) {
    if (!asked && !needs_nccl)
      return {.chosen = fmt::format("the CPU ({})", lack.reason), .of_ranks = {}, .transport = {}};
    const std::string_view otherwise = asked && needs_nccl ? "set train.device cpu without parallel.transport nccl"
                                       : needs_nccl        ? "leave out parallel.transport nccl"
                                                           : "set train.device cpu";
    throw AgreedError(Error(ExitCode::usage,
                            fmt::format("{} finds no device: {}",
                                        is_named ? "train.device cuda"
                                        : asked  ? "--check-device"
                                                 : "parallel.transport nccl",
                                        lack.reason),
                            hint_of(lack, otherwise)),
                      0);
  }
  if (!without.empty())
    throw AgreedError(Error(ExitCode::resources,
                            fmt::format("only some ranks have a device; without one: {} {}: {}",
                                        without.size() == 1 ? "rank" : "ranks", join(without, ", "), lack.reason),
                            hint_of(lack, needs_nccl ? "set train.device cpu without parallel.transport nccl"
                                                     : "set train.device cpu")),
                      0);
  const std::string shared = shared_device(found, world, hosts);
  RunDevices devices;
  together(world, "open the device", [&] {
    const KernelTables of_cpu = cpu_kernels();
    const DeviceSettings settings{.tf32 = config.precision.matmul == MatmulPrecision::tf32};
    std::unique_ptr<Device> device =
        device_plugin()->open(found.index, settings, [](std::int64_t bytes) { count_tensor_bytes(bytes); });
    register_kernels(static_cast<at::DeviceType>(device->properties().tensor_type),
                     with_refusals(*static_cast<const KernelTables*>(device_plugin()->kernels(&of_cpu))));
    devices.chosen =
        fmt::format("{} ({})", device->properties().name, is_named ? "train.device" : "every rank has a device");
    use_device(std::move(device));
    stay_near(this_device().properties().numa_node);
  });
  devices.transport = choose_transport(transport, shared, world);
  const int node = this_device().properties().numa_node;
  devices.of_ranks = world.all_gather(fmt::format("{}, device {}, {}{}", *mine, found.index, found.uuid,
                                                  node < 0 ? "" : fmt::format(", NUMA node {}", node)));
  return devices;
}

void require_device_kernels(const TrainConfig& config, const TrainPlan& plan) {
  if (this_device().properties().is_host) return;
  const KernelTables of_cpu = cpu_kernels();
  const auto& tables = *static_cast<const KernelTables*>(device_plugin()->kernels(&of_cpu));
  require_kernels(kernel_needs(config, plan.architecture.config, plan.mesh), absent_kernels(tables),
                  this_device().properties().name);
}

namespace {

DeviceOfPlan planned_device(std::string name, std::int64_t memory_bytes, std::string option, bool runs_plugin = true) {
  return {.name = std::move(name),
          .option = std::move(option),
          .runs_plugin = runs_plugin,
          .memory_bytes = memory_bytes,
          .overhead = {.context_bytes = assumed_context_bytes,
                       .workspace_bytes = assumed_workspace_bytes,
                       .communicator_bytes = assumed_communicator_bytes},
          .multiprocessors = assumed_multiprocessors};
}

}  // namespace

std::optional<DeviceOfPlan> device_planned_for(const TrainConfig& config) {
  if (config.train.device == DeviceChoice::cpu) return std::nullopt;
  const DevicePeaks* const device = config.log.peak_device ? find_device(*config.log.peak_device) : nullptr;
  constexpr std::int64_t bytes_per_gb = 1'000'000'000;
  if (device != nullptr)
    return planned_device(std::string(device->name), device->memory_gb * bytes_per_gb, "log.peak_device",
                          device->runs_plugin);
  const bool needs_gpu = config.train.device == DeviceChoice::cuda;
  const bool needs_nccl = config.parallel.transport == RankTransport::nccl;
  if (!needs_gpu && !needs_nccl) return std::nullopt;
  const std::string option = needs_gpu ? "train.device cuda" : "parallel.transport nccl";
  if (prints_plan(config)) return planned_device("a GPU", std::numeric_limits<std::int64_t>::max(), option);
  throw Error(ExitCode::usage, fmt::format("a plan for {} needs the name of the device", option),
              fmt::format("set log.peak_device, or {}; lockstep-performance(7) lists the names",
                          !needs_nccl ? "train.device cpu"
                          : needs_gpu ? "train.device cpu without parallel.transport nccl"
                                      : "leave out parallel.transport nccl"));
}

}  // namespace lockstep
