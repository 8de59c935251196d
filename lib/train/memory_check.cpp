#include "train/memory_check.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "program/memory_estimate.hpp"

#include <algorithm>

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

void require_memory(Communicator& world, const TrainPlan& plan) {
  together(world, "compare the plan with the memory of the device", [&] {
    if (const auto shortage = device_shortage(plan))
      throw Error(ExitCode::resources, *shortage,
                  "use a smaller train.micro_batch, --train.recompute block, train.offload, or more ranks that share "
                  "the weights; --train.memory_check off starts in any case");
  });
  const auto shortage = memory_shortage(needs_of(world, plan), MemoryCompared::available);
  if (!shortage) return;
  const Error error(ExitCode::resources, *shortage,
                    "use a smaller train.micro_batch, --train.recompute block or fewer ranks on a machine; "
                    "--train.memory_check off starts in any case");
  throw AgreedError(error, 0);
}

std::optional<std::string> device_shortage(const TrainPlan& plan) {
  if (!plan.device) return std::nullopt;
  for (const RankClass& ranks : plan.programs.all().front()->classes) {
    const Rank rank = ranks.ranks.front();
    const std::int64_t needed = device_memory_needed(plan, rank);
    if (needed > plan.device->memory_bytes)
      return fmt::format("rank {} needs {} of memory on {}, which has {}", rank,
                         human_bytes(static_cast<std::uint64_t>(needed)), plan.device->name,
                         human_bytes(static_cast<std::uint64_t>(plan.device->memory_bytes)));
  }
  return std::nullopt;
}

std::optional<std::string> memory_warning(Communicator& world, const TrainPlan& plan) {
  return memory_shortage(needs_of(world, plan), MemoryCompared::total);
}

}  // namespace lockstep
