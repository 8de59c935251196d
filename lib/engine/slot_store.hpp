// SlotStore is the memory of one execution of a program: what each slot holds, filled and emptied as the program says.
// Slots that live all run are the units' buffers and are not kept here.
#pragma once

#include "model/block.hpp"
#include "program/step_program.hpp"
#include "program/trace.hpp"
#include "tensor/saved_memory.hpp"
#include "tensor/unit.hpp"
#include "tensor/weight_gradients.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

namespace lockstep {

/// Finds a slot of a rank class by what it is for.
class SlotIndex {
 public:
  explicit SlotIndex(const RankClass& ranks);
  /// Throws Error(bug) naming the slot if the program has none.
  std::size_t find(SlotKind kind, Subject subject, MicroBatch micro_batch) const;
  bool has(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
    return index_.contains({kind, subject, micro_batch});
  }
  std::size_t size() const { return size_; }

 private:
  std::map<std::tuple<SlotKind, Subject, MicroBatch>, std::size_t> index_;
  std::size_t size_ = 0;
};

/// A stash holds a block's input and output; a boundary or its gradient holds one tensor.
struct SlotContent {
  at::Tensor input;
  at::Tensor value;
  std::shared_ptr<DeferredWeightGradients> deferred = {};  // what the first half of a backward leaves to the second
  std::shared_ptr<SavedMemory> saved = {};                 // of a stash that goes to host memory, or lies there
  std::shared_ptr<void> memory = {};                       // of one that has gone: let go with the slot
  std::shared_ptr<Replay> replay = {};                     // what a forward left, until its repetition takes it
};

class SlotStore {
 public:
  /// Records in `log` what is acquired and released.
  SlotStore(const RankClass& ranks, const SlotIndex& index, TraceLog& log)
      : ranks_(&ranks), index_(&index), log_(&log), contents_(index.size()) {}
  /// What the slot holds. Throws Error(bug) if it holds nothing.
  const SlotContent& at(SlotKind kind, Subject subject, MicroBatch micro_batch) const;
  const SlotContent& at(int slot) const;
  bool holds(int slot) const;
  /// Whether the program has such a slot.
  bool has(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
    return index_->has(kind, subject, micro_batch);
  }
  /// Null if the slot holds nothing.
  const SlotContent* find(SlotKind kind, Subject subject, MicroBatch micro_batch) const;
  /// Fills a slot that holds nothing.
  void acquire(SlotKind kind, Subject subject, MicroBatch micro_batch, SlotContent content);
  void acquire(int slot, SlotContent content);
  /// Replaces what a slot holds.
  void replace(int slot, SlotContent content);
  const Slot& slot(int slot) const { return ranks_->slots[static_cast<std::size_t>(slot)]; }
  /// Empties what the action at `position` releases, at once or, where it goes on behind the computation, once
  /// release_ended() is told that it has ended.
  void release(int position);
  /// The action at `position` has ended, and with it those that came before it on its lane.
  void release_ended(int position);
  /// All actions have ended.
  void release_all();

 private:
  void empty(int position);
  void record(TraceEntry::Event event, int slot);
  const RankClass* ranks_;
  const SlotIndex* index_;
  TraceLog* log_;
  std::vector<SlotContent> contents_;
  std::vector<int> going_on_;  // positions of actions that hold on to what they release, in order
};

/// The slot of this kind among `slots`; -1 if there is none.
int slot_among(const RankClass& ranks, const std::vector<int>& slots, SlotKind kind);

/// Memory for the `what` of a unit; what it holds is not looked at before it is written. Local. Throws Error(resources)
/// naming the unit where there is none.
at::Tensor unit_memory(const Unit& unit, std::int64_t length, at::ScalarType type, std::string_view what);

}  // namespace lockstep
