#include "engine/slot_store.hpp"

#include "base/error.hpp"

namespace lockstep {

SlotIndex::SlotIndex(const RankClass& ranks) : size_(ranks.slots.size()) {
  for (std::size_t i = 0; i < ranks.slots.size(); ++i) {
    const Slot& slot = ranks.slots[i];
    index_.emplace(std::tuple(slot.kind, slot.subject, slot.micro_batch), i);
  }
}

std::size_t SlotIndex::find(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
  const auto found = index_.find({kind, subject, micro_batch});
  if (found == index_.end()) {
    fail(ExitCode::bug, "the step program has no {} slot of {} {} for micro-batch {}", name_of(kind),
         name_of(subject.kind), subject.index, micro_batch);
  }
  return found->second;
}

void SlotStore::release(const Action& action) {
  for (const int slot : action.slots.releases) contents_[static_cast<std::size_t>(slot)] = {};
}

}  // namespace lockstep
