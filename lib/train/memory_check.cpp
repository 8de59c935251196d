#include "train/memory_check.hpp"

#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "program/memory_estimate.hpp"

#include <algorithm>

namespace lockstep {

/// Both arenas lie in memory of the machine. Programs, loads and saves take turns, but for the copy that saves in the
/// background keep.
std::int64_t memory_needed(const TrainPlan& plan, Rank rank) {
  std::int64_t most = plan.load_bytes(rank);
  for (const StepProgram* program : plan.programs.all()) {
    if (!plan.trains && program != &plan.programs.eval) continue;
    const RankClass& ranks = program->class_of(rank);
    most = std::max(most, memory_of(ranks).peak_bytes + memory_of(ranks, Arena::host).peak_bytes);
  }
  if (const StepProgram& local = plan.programs.averaging; !local.classes.empty())
    most = std::max(most, bytes_to_save_averages(local.class_of(rank)));
  return most + plan.snapshot_bytes(rank);
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
  const auto shortage = memory_shortage(needs_of(world, plan), MemoryCompared::available);
  if (!shortage) return;
  const Error error(ExitCode::resources, *shortage,
                    "use a smaller train.micro_batch, --train.recompute block or fewer ranks on a machine; "
                    "--train.memory_check off starts in any case");
  throw AgreedError(error, 0);
}

std::optional<std::string> memory_warning(Communicator& world, const TrainPlan& plan) {
  return memory_shortage(needs_of(world, plan), MemoryCompared::total);
}

}  // namespace lockstep
