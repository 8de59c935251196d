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

/// The most bytes that a rank needs, and the program to make smaller; not set: a load or a save needs them.
struct MostBytes {
  std::int64_t bytes = 0;
  std::optional<ProgramPhase> peak = {};
};

ProgramPhase phase_of(const TrainPlan& plan, const StepProgram& program) {
  if (&program == &plan.programs.eval) return ProgramPhase::evaluation;
  if (&program == &plan.programs.prompt) return ProgramPhase::prompt;
  return &program == &plan.programs.token ? ProgramPhase::token : ProgramPhase::training;
}

/// Programs take turns. `of_program` counts the bytes of one.
template <class OfProgram>
MostBytes most_of_programs(const TrainPlan& plan, Rank rank, const OfProgram& of_program) {
  MostBytes most;
  for (const StepProgram* program : plan.programs.all()) {
    if (!plan.trains && program == &plan.programs.train) continue;
    const std::int64_t bytes = of_program(program->class_of(rank));
    if (bytes > most.bytes + most.bytes / 16) most.peak = phase_of(plan, *program);  // less than that is no help
    most.bytes = std::max(most.bytes, bytes);
  }
  return most;
}

/// With loads and saves, which take turns with the programs.
MostBytes with_load_and_save(const TrainPlan& plan, Rank rank, const MostBytes& of_programs) {
  std::int64_t bytes = plan.load_bytes(rank);
  if (const StepProgram& local = plan.programs.averaging; !local.classes.empty())
    bytes = std::max(bytes, bytes_to_save_averages(local.class_of(rank)));
  return bytes > of_programs.bytes ? MostBytes{bytes} : of_programs;
}

/// On the CPU both arenas lie in memory of the machine, and so does the copy that saves in the background keep.
MostBytes most_of_machine(const TrainPlan& plan, Rank rank) {
  const auto on_host = [](const RankClass& ranks) { return memory_of(ranks, Arena::host).peak_bytes; };
  const auto on_both = [&](const RankClass& ranks) { return memory_of(ranks).peak_bytes + on_host(ranks); };
  MostBytes most = plan.device ? most_of_programs(plan, rank, on_host)
                               : with_load_and_save(plan, rank, most_of_programs(plan, rank, on_both));
  most.bytes += plan.snapshot_bytes(rank);
  return most;
}

MostBytes most_of_device(const TrainPlan& plan, Rank rank) {
  return with_load_and_save(
      plan, rank, most_of_programs(plan, rank, [](const RankClass& ranks) { return memory_of(ranks).peak_bytes; }));
}

/// The program with the peak on the rank that needs the most.
std::optional<ProgramPhase> peak_among(const TrainPlan& plan, const std::vector<Rank>& ranks,
                                       MostBytes (*most_of)(const TrainPlan&, Rank)) {
  MostBytes most;
  for (const Rank rank : ranks)
    if (const MostBytes of_rank = most_of(plan, rank); of_rank.bytes > most.bytes) most = of_rank;
  return most.peak;
}

std::string less_on_machine(const TrainPlan& plan) {
  std::vector<Rank> ranks;  // one of each class
  for (const RankClass& of_class : plan.programs.all().front()->classes) ranks.push_back(of_class.ranks.front());
  return "use " + less_machine_memory(peak_among(plan, ranks, most_of_machine));
}

}  // namespace

std::int64_t memory_needed(const TrainPlan& plan, Rank rank) { return most_of_machine(plan, rank).bytes; }

std::int64_t device_memory_needed(const TrainPlan& plan, Rank rank) { return most_of_device(plan, rank).bytes; }

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
  std::vector<Rank> ranks = {};
  DeviceParts needed = {};
  std::int64_t free_bytes = std::numeric_limits<std::int64_t>::max();
};

constexpr std::string_view start_anyway = "; --train.memory_check off starts in any case";

std::string less_on_device(const TrainPlan& plan, const DeviceParts& needed, const std::vector<Rank>& ranks) {
  return fmt::format("use {}{}", needed.communicators > 0 ? "parallel.transport host, " : "",
                     less_device_memory(peak_among(plan, ranks, most_of_device)));
}

/// By host and UUID. Collective over `world`.
std::map<std::string, DeviceNeeds> needs_on_devices(Communicator& world, const DeviceParts& needed, std::int64_t free) {
  const std::string mine = fmt::format("{}, {}\n{}\n{}\n{}\n{}", host_name(), this_device().properties().uuid, free,
                                       needed.tensors, needed.libraries, needed.communicators);
  std::map<std::string, DeviceNeeds> devices;
  Rank rank = 0;
  for (const std::string& text : world.all_gather(mine)) {
    const std::vector<std::string> fields = split(text, '\n');
    DeviceNeeds& device = devices[fields[0]];
    device.ranks.push_back(rank++);
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
                          fmt::join(device.ranks, ", "), ranks == 1 ? "needs" : "need",
                          human_bytes(device.needed.all()), plan.device->name, place, device.needed.text(),
                          human_bytes(device.free_bytes), human_bytes(plan.device->memory_bytes)),
              fmt::format("{}{}", less_on_device(plan, device.needed, device.ranks), start_anyway)),
        device.ranks.front());
  }
}

}  // namespace

void require_memory(Communicator& world, const TrainPlan& plan) {
  if (plan.device) require_device_memory(world, plan);
  const auto shortage = memory_shortage(needs_of(world, plan), MemoryCompared::available);
  if (!shortage) return;
  throw AgreedError(Error(ExitCode::resources, *shortage, fmt::format("{}{}", less_on_machine(plan), start_anyway)), 0);
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
                      .hint = less_on_device(plan, parts, {rank})};
  }
  return std::nullopt;
}

std::optional<Shortage> memory_warning(Communicator& world, const TrainPlan& plan) {
  const auto text = memory_shortage(needs_of(world, plan), MemoryCompared::total);
  if (!text) return std::nullopt;
  return Shortage{.text = *text, .hint = less_on_machine(plan)};
}

}  // namespace lockstep
