#include "program/memory_estimate.hpp"
#include "program/rules.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep::rules {

namespace {

void check_ranks(const StepProgram& program) {
  std::vector<int> lists(static_cast<std::size_t>(world_size(program.mesh)), 0);
  for (const RankClass& ranks : program.classes) {
    if (ranks.ranks.empty()) throw Fault{0, -1, "a class of ranks is empty"};
    if (!std::is_sorted(ranks.ranks.begin(), ranks.ranks.end()))
      throw Fault{ranks.ranks.front(), -1, "the ranks of its class are not ascending"};
    for (const Rank rank : ranks.ranks) {
      if (rank < 0 || rank >= world_size(program.mesh))
        throw Fault{ranks.ranks.front(), -1,
                    fmt::format("its class holds rank {}, which the mesh does not have", rank)};
      ++lists[static_cast<std::size_t>(rank)];
    }
  }
  for (std::size_t rank = 0; rank < lists.size(); ++rank)
    if (lists[rank] != 1) throw Fault{static_cast<Rank>(rank), -1, fmt::format("has {} lists of actions", lists[rank])};
}

/// Why the action makes no sense by itself; empty if it does.
std::string objection(const StepProgram& program, const ModelPlan& plan, const Action& action) {
  const OpFacts& facts = facts_of(action.op);
  const Subject::Kind kind = facts.subject;
  if (action.subject.kind != kind)
    return fmt::format("acts on a {}, not on a {}", name_of(action.subject.kind), name_of(kind));
  const std::size_t subjects = kind == Subject::Kind::block || kind == Subject::Kind::boundary ? plan.blocks.size()
                               : kind == Subject::Kind::unit                                   ? plan.units.size()
                                                                                               : 1;
  if (action.subject.index < (kind == Subject::Kind::boundary ? 1 : 0) ||
      static_cast<std::size_t>(action.subject.index) >= subjects)
    return fmt::format("acts on {} {} of {}", name_of(kind), action.subject.index, subjects);
  const bool of_step = action.micro_batch == no_micro_batch;
  if (of_step
          ? facts.of == OpFacts::Scope::micro_batch
          : facts.of != OpFacts::Scope::step && (action.micro_batch < 0 || action.micro_batch >= program.micro_batches))
    return fmt::format("has micro-batch {} of {}", action.micro_batch, program.micro_batches);
  if (!of_step && facts.of == OpFacts::Scope::step) return "has a micro-batch, but belongs to the whole step";
  const bool moves_bytes = is_collective(action.op) || is_transfer(action.op) || is_copy(action.op);
  if (moves_bytes == (action.lane == Lane::compute)) return fmt::format("is on the {} lane", name_of(action.lane));
  if (!moves_bytes && !meets_others(action) && action.bytes != 0) return "has a payload, but communicates nothing";
  if (is_transfer(action.op) ? action.group.size() != 1 || action.offset == 0 : action.offset != 0)
    return "lacks a peer, or has one without need";
  if (facts.group == OpFacts::Group::none && !action.group.empty()) return "has a group, but does not communicate";
  for (const AxisName& axis : action.group) {
    if (find_axis(program.mesh, axis) == nullptr)
      return fmt::format("is over axis {}, which the mesh does not have", axis);
    if (std::count(action.group.begin(), action.group.end(), axis) > 1)
      return fmt::format("is over axis {} twice", axis);
  }
  return {};
}

bool slots_exist(const RankClass& ranks, const std::vector<int>& slots) {
  return std::all_of(slots.begin(), slots.end(),
                     [&](int slot) { return slot >= 0 && static_cast<std::size_t>(slot) < ranks.slots.size(); });
}

void check_list(const StepProgram& program, const RankClass& ranks, const ModelPlan& plan) {
  std::set<std::pair<AxisName, int>> reached;  // by transfers, with axis and offset: each is looked at once
  for (std::size_t i = 0; i < ranks.actions.size(); ++i) {
    const Action& action = ranks.actions[i];
    const auto position = static_cast<int>(i);
    const std::string reason = objection(program, plan, action);
    if (!reason.empty()) throw Fault{ranks.ranks.front(), position, reason};
    for (const int wait : action.waits)
      if (wait < 0 || wait >= position)
        throw Fault{ranks.ranks.front(), position,
                    fmt::format("waits for action {}, which does not come before it", wait)};
    const Slots& slots = action.slots;
    if (!slots_exist(ranks, slots.acquires) || !slots_exist(ranks, slots.reads) || !slots_exist(ranks, slots.writes) ||
        !slots_exist(ranks, slots.releases))
      throw Fault{ranks.ranks.front(), position, "uses a slot that its class does not have"};
    if (!is_transfer(action.op) || !reached.insert({action.group.front(), action.offset}).second) continue;
    for (const Rank rank : ranks.ranks)
      if (!peer_of(program.mesh, rank, action))
        throw Fault{rank, position, fmt::format("its peer lies outside the axis {}", action.group.front())};
  }
}

}  // namespace

void check_form(const StepProgram& program, const ModelPlan& plan) {
  check_ranks(program);
  for (const RankClass& ranks : program.classes) check_list(program, ranks, plan);
}

void check_memory(const RankClass& ranks, Arena arena, std::int64_t limit_bytes) {
  const MemoryUse use = memory_of(ranks, arena);
  if (limit_bytes == 0 || use.peak_bytes <= limit_bytes) return;
  const auto human = [](std::int64_t bytes) { return human_bytes(static_cast<std::uint64_t>(bytes)); };
  const bool host = arena == Arena::host;
  throw Fault{ranks.ranks.front(), use.peak_action,
              fmt::format("needs {}{}, the limit is {}", human(use.peak_bytes), host ? " of host memory" : "",
                          human(limit_bytes)),
              host ? "offload less, or raise train.host_memory"
                   : "use smaller micro-batches, recompute blocks, or raise the memory limit"};
}

}  // namespace lockstep::rules
