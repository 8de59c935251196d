// SlotStore is the memory of one execution of a program: the contents of each slot, acquired and released in the order
// of the program. Slots that live all run are the buffers of units (tensor/unit.hpp) and are not kept here.
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

/// Finds a slot of a rank class by kind, subject and micro-batch.
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
  std::shared_ptr<DeferredWeightGradients> deferred = {};  // left by backward_input for backward_weight
  std::shared_ptr<SavedMemory> saved = {};                 // of a stash that moves to host memory, or lies there
  // Of a stash that was copied out: device memory that is freed with the slot.
  std::shared_ptr<void> memory = {};
  std::shared_ptr<Replay> replay = {};  // left by a forward for its recomputation
};

class SlotStore {
 public:
  /// Records acquired and released slots in `log`.
  SlotStore(const RankClass& ranks, const SlotIndex& index, TraceLog& log)
      : ranks_(&ranks), index_(&index), log_(&log), contents_(index.size()) {}
  /// The content of the slot. Throws Error(bug) if it is empty.
  const SlotContent& at(SlotKind kind, Subject subject, MicroBatch micro_batch) const;
  const SlotContent& at(int slot) const;
  /// Whether the slot has a content.
  bool holds(int slot) const;
  /// Whether the program has such a slot.
  bool has(SlotKind kind, Subject subject, MicroBatch micro_batch) const {
    return index_->has(kind, subject, micro_batch);
  }
  /// Null if the slot is empty.
  const SlotContent* find(SlotKind kind, Subject subject, MicroBatch micro_batch) const;
  /// Fills an empty slot.
  void acquire(SlotKind kind, Subject subject, MicroBatch micro_batch, SlotContent content);
  void acquire(int slot, SlotContent content);
  /// Replaces the content of a slot.
  void replace(int slot, SlotContent content);
  const Slot& slot(int slot) const { return ranks_->slots[static_cast<std::size_t>(slot)]; }
  /// Empties the slots that the action at `position` releases: at once or, if the action runs beside the computation,
  /// when release_ended() reports its end.
  void release(int position);
  /// Call when the action at `position`, and with it all earlier ones on its lane, has ended.
  void release_ended(int position);
  /// Call when all actions have ended.
  void release_all();

 private:
  void empty(int position);
  void record(TraceEntry::Event event, int slot);
  const RankClass* ranks_;
  const SlotIndex* index_;
  TraceLog* log_;
  std::vector<SlotContent> contents_;
  std::vector<int> going_on_;  // positions of actions under way whose released slots are still filled, in order
};

/// The slot of this kind among `slots`; -1 if there is none.
int slot_among(const RankClass& ranks, const std::vector<int>& slots, SlotKind kind);

/// Uninitialised memory of `length` elements for the `what` of a unit, which error messages name, and of `padding` more
/// behind them. Local. Throws Error(resources), or c10::OutOfMemoryError of a device, naming the unit if there is not
/// enough memory.
at::Tensor unit_memory(const Unit& unit, std::int64_t length, at::ScalarType type, std::string_view what,
                       std::int64_t padding = 0);

}  // namespace lockstep
