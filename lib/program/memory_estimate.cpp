#include "program/memory_estimate.hpp"

#include "program/happens_before.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {

MemoryUse memory_of(const RankClass& ranks, Arena arena) {
  const HappensBefore order(ranks.actions);
  std::map<SlotKind, std::int64_t> live;
  std::int64_t total = 0;
  const auto change = [&](int slot, int sign) {
    const Slot& changed = ranks.slots[static_cast<std::size_t>(slot)];
    if (changed.arena != arena) return;
    live[changed.kind] += sign * changed.bytes;
    total += sign * changed.bytes;
  };
  for (std::size_t i = 0; i < ranks.slots.size(); ++i)
    if (lives_all_run(ranks.slots[i].kind)) change(static_cast<int>(i), 1);
  MemoryUse use{live, total, -1};
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
    if (use.peak_action < 0 || total > use.peak_bytes) use = {live, total, i};
    if (!action.slots.releases.empty()) ending.push_back(i);
  }
  return use;
}

std::int64_t bytes_to_save_averages(const RankClass& ranks) {
  std::int64_t bytes = 0;
  for (const Slot& slot : ranks.slots) {
    if (!lives_all_run(slot.kind)) continue;
    bytes += slot.bytes;
    const bool is_trained = std::ranges::any_of(ranks.slots, [&](const Slot& other) {
      return other.kind == SlotKind::optimizer_state && other.subject == slot.subject;
    });
    if (is_trained && (slot.kind == SlotKind::master || slot.kind == SlotKind::optimizer_state)) bytes += slot.bytes;
  }
  return bytes;
}

}  // namespace lockstep
