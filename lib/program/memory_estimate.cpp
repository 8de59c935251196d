#include "program/memory_estimate.hpp"

#include "base/error.hpp"
#include "program/memory_walk.hpp"

#include <algorithm>
#include <vector>

namespace lockstep {

MemoryUse memory_of(const RankClass& ranks, Arena arena) {
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
  walk_memory(ranks, change, [&](int action) {
    if (use.peak_action < 0 || total > use.peak_bytes) use = {live, total, action};
  });
  return use;
}

bool is_activation(SlotKind kind) {
  switch (kind) {
    case SlotKind::stash:
    case SlotKind::fetched_stash:
    case SlotKind::boundary:
    case SlotKind::boundary_gradient:
    case SlotKind::kept:
    case SlotKind::deferred:
    case SlotKind::workspace: return true;
    case SlotKind::master:
    case SlotKind::compute_copy:
    case SlotKind::gradient:
    case SlotKind::optimizer_state:
    case SlotKind::own_weights:
    case SlotKind::shared:
    case SlotKind::cache:
    case SlotKind::gathered:
    case SlotKind::kept_weights:
    case SlotKind::local_gradient:
    case SlotKind::cast_gradient:
    case SlotKind::shard_gradient:
    case SlotKind::peer_gradient:
    case SlotKind::step_gradient:
    case SlotKind::fetched_weights:
    case SlotKind::fetched_state:
    case SlotKind::host_stash: return false;
  }
  fail(ExitCode::bug, "unknown SlotKind {}", static_cast<int>(kind));
}

MemoryUse activations_of(const RankClass& ranks) {
  std::map<SlotKind, std::int64_t> live;
  std::int64_t total = 0;
  MemoryUse use;
  const auto change = [&](int slot, int sign) {
    const Slot& changed = ranks.slots[static_cast<std::size_t>(slot)];
    if (!is_activation(changed.kind)) return;
    live[changed.kind] += sign * changed.bytes;
    total += sign * changed.bytes;
  };
  walk_memory(ranks, change, [&](int action) {
    if (use.peak_action < 0 || total > use.peak_bytes) use = {live, total, action};
  });
  return use;
}

std::int64_t bytes_held(const RankClass& ranks) {
  std::int64_t bytes = 0;
  for (const Slot& slot : ranks.slots)
    if (lives_all_run(slot.kind)) bytes += slot.bytes;
  return bytes;
}

std::int64_t bytes_to_save_averages(const RankClass& ranks) {
  std::int64_t bytes = bytes_held(ranks);
  for (const Slot& slot : ranks.slots) {
    if (!lives_all_run(slot.kind)) continue;
    const bool is_trained = std::ranges::any_of(ranks.slots, [&](const Slot& other) {
      return other.kind == SlotKind::optimizer_state && other.subject == slot.subject;
    });
    if (is_trained && (slot.kind == SlotKind::master || slot.kind == SlotKind::optimizer_state)) bytes += slot.bytes;
  }
  return bytes;
}

std::int64_t bytes_of_snapshot(const RankClass& ranks, bool apart, bool weights_alone) {
  std::int64_t bytes = 0;
  for (const Slot& slot : ranks.slots)
    if (slot.kind == SlotKind::master || (slot.kind == SlotKind::optimizer_state && !weights_alone))
      bytes += slot.bytes;
  return apart && !weights_alone ? 2 * bytes : bytes;
}

}  // namespace lockstep
