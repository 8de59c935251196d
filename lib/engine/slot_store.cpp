#include "engine/slot_store.hpp"

#include "base/error.hpp"

#include <utility>

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

void SlotStore::empty(int position) {
  for (const int slot : ranks_->actions[static_cast<std::size_t>(position)].slots.releases)
    contents_[static_cast<std::size_t>(slot)] = {};
}

void SlotStore::release(int position) {
  const Action& action = ranks_->actions[static_cast<std::size_t>(position)];
  if (action.slots.releases.empty()) return;
  if (behind_computation(action.op))
    going_on_.push_back(position);
  else
    empty(position);
}

void SlotStore::release_ended(int position) {
  const Lane lane = ranks_->actions[static_cast<std::size_t>(position)].lane;
  std::erase_if(going_on_, [&](int earlier) {
    if (earlier > position || ranks_->actions[static_cast<std::size_t>(earlier)].lane != lane) return false;
    empty(earlier);
    return true;
  });
}

void SlotStore::release_all() {
  for (const int position : std::exchange(going_on_, {})) empty(position);
}

}  // namespace lockstep
