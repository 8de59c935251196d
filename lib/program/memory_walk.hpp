// Finds when the memory of a rank begins and has certainly ended, from the order of its list.
// program/memory_estimate.hpp and program/activation_budget.hpp count memory with it.
#pragma once

#include "program/happens_before.hpp"
#include "program/step_program.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {

/// For each action, in order: calls change(slot, 1) for each slot that it acquires, then at(position). A slot that an
/// action releases ends with change(slot, -1), before at() of the first later action that certainly comes after the
/// releasing one: an action on the compute lane, or a copy that waits for it.
template <class Change, class At>
void walk_memory(const RankClass& ranks, const Change& change, const At& at) {
  const HappensBefore order(ranks.actions);
  std::vector<int> ending;  // actions whose releases are not certain yet
  for (int i = 0; i < static_cast<int>(ranks.actions.size()); ++i) {
    const Action& action = ranks.actions[static_cast<std::size_t>(i)];
    const auto comes_after = [&](int earlier) {
      if (action.lane == Lane::compute) return order.before(earlier, i);
      return is_copy(action.op) && std::ranges::any_of(action.waits, [&](int wait) {
               return earlier == wait || order.before(earlier, wait);
             });
    };
    if (action.lane == Lane::compute || is_copy(action.op)) {
      std::erase_if(ending, [&](int earlier) {
        if (!comes_after(earlier)) return false;
        for (const int slot : ranks.actions[static_cast<std::size_t>(earlier)].slots.releases) change(slot, -1);
        return true;
      });
    }
    for (const int slot : action.slots.acquires) change(slot, 1);
    at(i);
    if (!action.slots.releases.empty()) ending.push_back(i);
  }
}

}  // namespace lockstep
