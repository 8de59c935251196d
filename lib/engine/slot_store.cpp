#include "engine/slot_store.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "tensor/arena.hpp"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <exception>
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

namespace {

bool is_empty(const SlotContent& content) {
  return !content.value.defined() && !content.input.defined() && !content.deferred && !content.memory &&
         !content.replay;
}

}  // namespace

const SlotContent& SlotStore::at(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
  return at(static_cast<int>(index_->find(kind, subject, micro_batch)));
}

const SlotContent& SlotStore::at(int slot) const {
  invariant(holds(slot), "an action reads a slot that has been acquired");
  return contents_[static_cast<std::size_t>(slot)];
}

bool SlotStore::holds(int slot) const { return !is_empty(contents_[static_cast<std::size_t>(slot)]); }

const SlotContent* SlotStore::find(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
  const auto slot = static_cast<int>(index_->find(kind, subject, micro_batch));
  return holds(slot) ? &at(slot) : nullptr;
}

void SlotStore::acquire(SlotKind kind, Subject subject, MicroBatch micro_batch, SlotContent content) {
  acquire(static_cast<int>(index_->find(kind, subject, micro_batch)), std::move(content));
}

void SlotStore::acquire(int slot, SlotContent content) {
  SlotContent& into = contents_[static_cast<std::size_t>(slot)];
  invariant(is_empty(into), "a slot is acquired once");
  into = std::move(content);
  record(TraceEntry::Event::acquired, slot);
}

void SlotStore::replace(int slot, SlotContent content) {
  invariant(holds(slot), "a replaced slot has been acquired");
  contents_[static_cast<std::size_t>(slot)] = std::move(content);
}

void SlotStore::record(TraceEntry::Event event, int slot) {
  const Slot& of = ranks_->slots[static_cast<std::size_t>(slot)];
  const bool exact = of.kind >= SlotKind::gathered && of.kind <= SlotKind::fetched_state;  // memory of units
  const SlotContent& content = contents_[static_cast<std::size_t>(slot)];
  log_->add({.event = event,
             .what = name_of(of.kind),
             .subject = of.subject,
             .micro_batch = of.micro_batch,
             .bytes = exact ? static_cast<std::int64_t>(content.value.storage().nbytes()) : 0});
}

void SlotStore::empty(int position) {
  for (const int slot : ranks_->actions[static_cast<std::size_t>(position)].slots.releases) {
    SlotContent& content = contents_[static_cast<std::size_t>(slot)];
    if (is_empty(content)) continue;  // a kernel's workspace, or of a rank that failed
    record(TraceEntry::Event::released, slot);
    content = {};
  }
}

void SlotStore::release(int position) {
  const Action& action = ranks_->actions[static_cast<std::size_t>(position)];
  if (action.slots.releases.empty()) return;
  if (overlaps_compute(action.op))
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

int slot_among(const RankClass& ranks, const std::vector<int>& slots, SlotKind kind) {
  const auto found =
      std::ranges::find_if(slots, [&](int slot) { return ranks.slots[static_cast<std::size_t>(slot)].kind == kind; });
  return found == slots.end() ? -1 : *found;
}

at::Tensor unit_memory(const Unit& unit, std::int64_t length, at::ScalarType type, std::string_view what,
                       std::int64_t padding) {
  const auto options = device_options(type);
  try {
    return at::empty({length + padding}, options).narrow(0, 0, length);
  } catch (c10::OutOfMemoryError& error) {  // of a device, with its numbers
    error.add_context(fmt::format("for the {} of unit {}", what, unit.name()));
    throw;
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    const auto bytes = static_cast<std::uint64_t>(length + padding) * options.dtype().itemsize();
    throw Error(
        ExitCode::resources,
        fmt::format("cannot take {} for the {} of unit {}: out of memory", human_bytes(bytes), what, unit.name()),
        "use smaller units (parallel.bucket_size, parallel.units) or fewer ranks on this machine");
  }
}

}  // namespace lockstep
