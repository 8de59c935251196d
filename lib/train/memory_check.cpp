#include "train/memory_check.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"
#include "engine/engine.hpp"
#include "program/memory_estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
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

std::int64_t communicator_memory(const TrainPlan& plan, Rank rank) {
  if (!plan.device->uses_nccl) return 0;
  return std::ssize(device_groups(plan.programs, rank)) * plan.device->overhead.communicator_bytes;
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

/// The needs of a rank, or of ranks that share a device.
struct DeviceParts {
  std::int64_t tensors = 0, libraries = 0, communicators = 0;
  std::int64_t all() const { return tensors + libraries + communicators; }
  /// "1.2 GiB for tensors and 32 MiB for libraries"
  std::string text() const {
    if (communicators == 0)
      return fmt::format("{} for tensors and {} for libraries", human_bytes(tensors), human_bytes(libraries));
    return fmt::format("{} for tensors, {} for libraries and an estimate of {} for communicators of NCCL",
                       human_bytes(tensors), human_bytes(libraries), human_bytes(communicators));
  }
};

DeviceParts parts_of(const TrainPlan& plan, Rank rank) {
  return {.tensors = device_memory_needed(plan, rank),
          .libraries = plan.device->overhead.workspace_bytes,
          .communicators = communicator_memory(plan, rank)};
}

/// The ranks on a device that is in use.
struct DeviceNeeds {
  std::vector<std::string> ranks = {};
  DeviceParts needed = {};
  std::int64_t free_bytes = std::numeric_limits<std::int64_t>::max();
};

constexpr std::string_view start_anyway = "; --train.memory_check off starts in any case";
constexpr std::string_view less_on_machine =
    "use a smaller train.micro_batch, --train.recompute block or fewer ranks on a machine";

std::string less_on_device(const DeviceParts& needed) {
  return fmt::format(
      "use {}a smaller train.micro_batch, --train.recompute block, train.offload, or more ranks that "
      "share the weights",
      needed.communicators > 0 ? "parallel.transport host, " : "");
}

/// By host and UUID. Collective over `world`.
std::map<std::string, DeviceNeeds> needs_on_devices(Communicator& world, const DeviceParts& needed, std::int64_t free) {
  const std::string mine = fmt::format("{}, {}\n{}\n{}\n{}\n{}", host_name(), this_device().properties().uuid, free,
                                       needed.tensors, needed.libraries, needed.communicators);
  std::map<std::string, DeviceNeeds> devices;
  std::size_t rank = 0;
  for (const std::string& text : world.all_gather(mine)) {
    const std::vector<std::string> fields = split(text, '\n');
    DeviceNeeds& device = devices[fields[0]];
    device.ranks.push_back(std::to_string(rank++));
    device.free_bytes = std::min<std::int64_t>(device.free_bytes, std::stoll(fields[1]));
    device.needed.tensors += std::stoll(fields[2]);
    device.needed.libraries += std::stoll(fields[3]);
    device.needed.communicators += std::stoll(fields[4]);
  }
  return devices;
}

/// Collective over `world`.
void require_device_memory(Communicator& world, const TrainPlan& plan) {
  const DeviceParts mine = parts_of(plan, world.rank());
  for (const auto& [place, device] : needs_on_devices(world, mine, plan.device->free_bytes.value())) {
    if (device.needed.all() <= device.free_bytes) continue;
    const auto ranks = std::ssize(device.ranks);
    throw AgreedError(
        Error(ExitCode::resources,
              fmt::format("{} {} {} {} of memory on {} ({}): {}; {} of {} are free", ranks == 1 ? "rank" : "ranks",
                          join(device.ranks, ", "), ranks == 1 ? "needs" : "need", human_bytes(device.needed.all()),
                          plan.device->name, place, device.needed.text(), human_bytes(device.free_bytes),
                          human_bytes(plan.device->memory_bytes)),
              fmt::format("{}{}", less_on_device(device.needed), start_anyway)),
        std::stoi(device.ranks.front()));
  }
}

}  // namespace

void require_memory(Communicator& world, const TrainPlan& plan) {
  if (plan.device) require_device_memory(world, plan);
  const auto shortage = memory_shortage(needs_of(world, plan), MemoryCompared::available);
  if (!shortage) return;
  throw AgreedError(Error(ExitCode::resources, *shortage, fmt::format("{}{}", less_on_machine, start_anyway)), 0);
}

std::optional<Shortage> device_shortage(const TrainPlan& plan) {
  if (!plan.device) return std::nullopt;
  const std::int64_t context = plan.device->overhead.context_bytes;
  for (const RankClass& ranks : plan.programs.all().front()->classes) {
    const Rank rank = ranks.ranks.front();
    const DeviceParts parts = parts_of(plan, rank);
    const std::int64_t needed = parts.all();
    if (needed + context > plan.device->memory_bytes)
      return Shortage{.text = fmt::format("rank {} needs {} of memory on {}: {}, and {} for the context; {} are there",
                                          rank, human_bytes(needed + context), plan.device->name, parts.text(),
                                          human_bytes(context), human_bytes(plan.device->memory_bytes)),
                      .hint = less_on_device(parts)};
  }
  return std::nullopt;
}

std::optional<Shortage> memory_warning(Communicator& world, const TrainPlan& plan) {
  const auto text = memory_shortage(needs_of(world, plan), MemoryCompared::total);
  if (!text) return std::nullopt;
  return Shortage{.text = *text, .hint = std::string(less_on_machine)};
}

}  // namespace lockstep
