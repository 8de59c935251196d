// Activation offloading: memory that functions save for backward while a block runs forward can move to the host until
// backward reads it. Only the storage beneath the tensors moves; views, strides and autograd's graph stay the same, and
// so do all bits.
#pragma once

#include "device/region.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

namespace lockstep {

class SavedMemory {
 public:
  /// While it lives, memory that functions of this thread save is added to `into`; nullptr: nothing is collected. Not
  /// nested.
  class Collection {
   public:
    explicit Collection(SavedMemory* into);
    ~Collection();
    Collection(const Collection&) = delete;
    Collection& operator=(const Collection&) = delete;
  };

  /// Leaves out the memory of tensors that have other owners too; it stays where it is.
  void leave(std::initializer_list<at::Tensor> shared);
  std::int64_t bytes() const;

  /// Copies to be made, and memory that must live until they have ended.
  struct Move {
    std::vector<RegionCopy> copies;
    std::shared_ptr<void> left;  // former memory of the tensors
  };
  /// Moves the tensors to one region of host memory. From now on nothing may read them. Throws as empty_in does;
  /// nothing is changed then.
  Move move_out();
  /// Moves each tensor back to device memory of its own, which may be read once the copies have ended. The host memory
  /// lives as long as this object. If there is no memory, throws LibTorch's error; nothing is changed then.
  std::vector<RegionCopy> move_in();

 private:
  friend void note_saved(std::initializer_list<at::Tensor> tensors);
  std::vector<c10::Storage> storages_;  // without duplicates
  at::Tensor host_;
};

/// Called by the forward pass of autograd functions for tensors that backward will read. Undefined tensors are skipped.
void note_saved(std::initializer_list<at::Tensor> tensors);

}  // namespace lockstep
