#include "train/memory_check.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "program/memory_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

namespace {

/// The most that programs, loads and saves need, which take turns, as `of_program` counts a program.
template <class OfProgram>
std::int64_t most_of_programs(const TrainPlan& plan, Rank rank, const OfProgram& of_program) {
  std::int64_t most = plan.load_bytes(rank);
  for (const StepProgram* program : plan.programs.all()) {
    if (!plan.trains && program != &plan.programs.eval) continue;
    most = std::max(most, of_program(program->class_of(rank)));
  }
  if (const StepProgram& local = plan.programs.averaging; !local.classes.empty())
    most = std::max(most, bytes_to_save_averages(local.class_of(rank)));
  return most;
}

}  // namespace

/// On the CPU both arenas lie in memory of the machine, and so does the copy that saves in the background keep.
std::int64_t memory_needed(const TrainPlan& plan, Rank rank) {
  const std::int64_t snapshot = plan.snapshot_bytes(rank);
  if (plan.device) {
    std::int64_t most = 0;
    for (const StepProgram* program : plan.programs.all())
      most = std::max(most, memory_of(program->class_of(rank), Arena::host).peak_bytes);
    return most + snapshot;
  }
  return snapshot + most_of_programs(plan, rank, [](const RankClass& ranks) {
           return memory_of(ranks).peak_bytes + memory_of(ranks, Arena::host).peak_bytes;
         });
}

std::int64_t device_memory_needed(const TrainPlan& plan, Rank rank) {
  return most_of_programs(plan, rank, [](const RankClass& ranks) { return memory_of(ranks).peak_bytes; });
}

namespace {

/// What every rank needs and where. Collective over `world`.
std::vector<RankMemory> needs_of(Communicator& world, const TrainPlan& plan) {
  std::string mine;
  together(world, "read the memory of the machine", [&] {
    const Rank rank = plan.ranks == world.size() ? world.rank() : 0;
    mine = RankMemory{host_name(), memory_needed(plan, rank), memory_limits()}.encode();
  });
  std::vector<RankMemory> needs;
  if (plan.ranks == world.size()) {
    for (const std::string& text : world.all_gather(mine)) needs.push_back(RankMemory::decode(text));
    return needs;
  }
  RankMemory here = RankMemory::decode(mine);
  for (const RankClass& ranks : plan.programs.train.classes) {
    here.bytes = memory_needed(plan, ranks.ranks.front());
    needs.insert(needs.end(), ranks.ranks.size(), here);
  }
  return needs;
}

}  // namespace

void choose_background(Communicator& world, Background background, TrainPlan& plan, MemoryCompared compared) {
  if (background != Background::automatic) return;
  const auto shortage = memory_shortage(needs_of(world, plan), compared);
  if (!shortage) return;
  plan.snapshot_limit.reset();
  plan.no_snapshot = *shortage;
}

namespace {

/// Of a rank, or of ranks that share a device: "1.2 GiB for tensors and 32 MiB for libraries".
std::string device_needs_text(std::int64_t needed, std::int64_t workspace) {
  return fmt::format("{} for tensors and {} for libraries", human_bytes(needed - workspace), human_bytes(workspace));
}

/// The ranks on a device that is in use.
struct DeviceNeeds {
  std::vector<std::string> ranks = {};
  std::int64_t needed_bytes = 0;
  std::int64_t free_bytes = std::numeric_limits<std::int64_t>::max();
};

/// By host and UUID. Collective over `world`.
std::map<std::string, DeviceNeeds> needs_on_devices(Communicator& world, std::int64_t needed, std::int64_t free) {
  const std::string mine = fmt::format("{}, {}\n{}\n{}", host_name(), this_device().properties().uuid, needed, free);
  std::map<std::string, DeviceNeeds> devices;
  std::size_t rank = 0;
  for (const std::string& text : world.all_gather(mine)) {
    const std::vector<std::string> fields = split(text, '\n');
    DeviceNeeds& device = devices[fields[0]];
    device.ranks.push_back(std::to_string(rank++));
    device.needed_bytes += std::stoll(fields[1]);
    device.free_bytes = std::min<std::int64_t>(device.free_bytes, std::stoll(fields[2]));
  }
  return devices;
}

/// Collective over `world`.
void require_device_memory(Communicator& world, const TrainPlan& plan) {
  const std::int64_t workspace = plan.device->overhead.workspace_bytes;
  const std::int64_t needed = device_memory_needed(plan, world.rank()) + workspace;
  for (const auto& [place, device] : needs_on_devices(world, needed, plan.device->free_bytes.value())) {
    if (device.needed_bytes <= device.free_bytes) continue;
    const auto ranks = std::ssize(device.ranks);
    throw AgreedError(
        Error(ExitCode::resources,
              fmt::format("{} {} {} {} of memory on {} ({}): {}; {} of {} are free", ranks == 1 ? "rank" : "ranks",
                          join(device.ranks, ", "), ranks == 1 ? "needs" : "need", human_bytes(device.needed_bytes),
                          plan.device->name, place, device_needs_text(device.needed_bytes, ranks * workspace),
                          human_bytes(device.free_bytes), human_bytes(plan.device->memory_bytes)),
              "use a smaller train.micro_batch, --train.recompute block, train.offload, or more ranks that share the "
              "weights; --train.memory_check off starts in any case"),
        std::stoi(device.ranks.front()));
  }
}

}  // namespace

void require_memory(Communicator& world, const TrainPlan& plan) {
  if (plan.device) require_device_memory(world, plan);
  const auto shortage = memory_shortage(needs_of(world, plan), MemoryCompared::available);
  if (!shortage) return;
  const Error error(ExitCode::resources, *shortage,
                    "use a smaller train.micro_batch, --train.recompute block or fewer ranks on a machine; "
                    "--train.memory_check off starts in any case");
  throw AgreedError(error, 0);
}

std::optional<std::string> device_shortage(const TrainPlan& plan) {
  if (!plan.device) return std::nullopt;
  const auto& [context, workspace] = plan.device->overhead;
  for (const RankClass& ranks : plan.programs.all().front()->classes) {
    const Rank rank = ranks.ranks.front();
    const std::int64_t needed = device_memory_needed(plan, rank) + workspace;
    if (needed + context > plan.device->memory_bytes)
      return fmt::format("rank {} needs {} of memory on {}: {}, and {} for the context; {} are there", rank,
                         human_bytes(needed + context), plan.device->name, device_needs_text(needed, workspace),
                         human_bytes(context), human_bytes(plan.device->memory_bytes));
  }
  return std::nullopt;
}

std::optional<std::string> memory_warning(Communicator& world, const TrainPlan& plan) {
  return memory_shortage(needs_of(world, plan), MemoryCompared::total);
}

}  // namespace lockstep
