// Tools that the passes share: a list that is written while another one is read, and functions that make actions. Only
// the sources of the passes include this header.
#pragma once

#include "base/error.hpp"
#include "program/passes.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

/// Writes a new list while reading an old one; the waits of kept actions follow them to their new positions.
class Rewriter {
 public:
  /// Appends the next action of the old list. It also waits for `more`, positions in the new list.
  int keep(Action action, const Waits& more = {}) {
    for (int& wait : action.waits) wait = new_position_.at(static_cast<std::size_t>(wait));
    for (const int wait : more)
      if (std::ranges::find(action.waits, wait) == action.waits.end()) action.waits.push_back(wait);
    std::ranges::sort(action.waits);
    return place(std::move(action));
  }
  /// Appends an action that the old list did not have; its waits are positions in the new list.
  int add(Action action) {
    list_.push_back(std::move(action));
    return static_cast<int>(list_.size()) - 1;
  }
  const std::vector<Action>& so_far() const { return list_; }
  std::vector<Action> list() && { return std::move(list_); }

 private:
  int place(Action action) {
    new_position_.push_back(add(std::move(action)));
    return new_position_.back();
  }
  std::vector<Action> list_;
  std::vector<int> new_position_;  // by position in the old list
};

inline Action make(Op op, Subject subject, MicroBatch micro_batch = no_micro_batch) {
  Action action;
  action.op = op;
  action.subject = subject;
  action.micro_batch = micro_batch;
  return action;
}

inline Action make_collective(Op op, Subject subject, std::vector<AxisName> group, std::int64_t bytes, Waits waits) {
  Action action = make(op, subject);
  action.lane = facts_of(op).lane;
  action.group = std::move(group);
  action.bytes = bytes;
  action.waits = std::move(waits);
  return action;
}

/// A copy of the subject of `of` between host memory and the device.
inline Action make_copy(Op op, const Action& of, std::int64_t bytes, Waits waits) {
  Action action = make(op, of.subject, of.micro_batch);
  action.lane = facts_of(op).lane;
  action.bytes = bytes;
  std::ranges::sort(waits);
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  action.waits = std::move(waits);
  return action;
}

/// Adds the group and the bytes of these exchanges to a pass of a block.
inline Action speaking(Action action, const std::vector<BlockExchange>& said) {
  action.group = axes_of(said);
  for (const BlockExchange& exchange : said) action.bytes += exchange.bytes();
  return action;
}
/// Adds the group and the bytes of its exchanges to the update of a unit.
inline Action updating(Action action, const UnitPlan& unit) {
  if (unit.update_exchanges.empty()) return action;
  action.group = unit.update_exchanges.front().axes;
  for (const BlockExchange& exchange : unit.update_exchanges) action.bytes += exchange.bytes();
  return action;
}
/// Adds the exchanges of the plan to a forward or a backward. Other actions stay as they are.
inline Action with_exchanges(Action action, const ModelPlan& plan) {
  if (facts_of(action.op).group != OpFacts::Group::within) return action;
  const BlockExchanges& exchanges = plan.blocks[static_cast<std::size_t>(action.subject.index)].exchanges;
  const std::vector<BlockExchange>& said = action.op == Op::forward ? exchanges.forward : exchanges.backward;
  return speaking(std::move(action), said);
}

inline std::vector<AxisName> all_axes(const Mesh& mesh) {
  std::vector<AxisName> names;
  for (const Axis& axis : mesh.axes) names.push_back(axis.name);
  return names;
}

/// Applies `rewrite` to the list of every class.
template <class Rewrite>
StepProgram rewritten(const StepProgram& program, Rewrite&& rewrite) {
  StepProgram result = program;
  for (RankClass& ranks : result.classes) {
    invariant(ranks.slots.empty(), "allocate is the last pass");
    ranks.actions = rewrite(std::as_const(ranks.actions));
  }
  return result;
}

/// The position of the last action on the compute lane, as waits of an action on another lane.
inline Waits after_compute(const std::vector<Action>& actions) {
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].lane == Lane::compute) return {static_cast<int>(i)};
  return {};
}

inline bool uses(const Action& action, const UnitPlan& unit) {
  return action.subject.kind == Subject::Kind::block &&
         std::ranges::find(unit.blocks, action.subject.index) != unit.blocks.end();
}

/// Whether the action, as far as is known, is the last one on a unit's gradient before the optimizer.
inline bool completes_gradient(Op op) {
  return op == Op::finish_gradient || op == Op::reduce_scatter || op == Op::all_reduce || op == Op::add_gradient;
}

}  // namespace lockstep
