// What functions save for backward while a block runs forward: memory that may lie on the host until backward reads it.
// It is moved beneath its tensors: views, strides and autograd's graph stay as they are, and with them all bits.
#pragma once

#include "base/region.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

namespace lockstep {

class SavedMemory {
 public:
  /// While it lives, what functions of this thread save is collected; of null nothing is. Not nested.
  class Collection {
   public:
    explicit Collection(SavedMemory* into);
    ~Collection();
    Collection(const Collection&) = delete;
    Collection& operator=(const Collection&) = delete;
  };

  /// Leaves out the memory of tensors that others hold too: it stays where it is.
  void leave(std::initializer_list<at::Tensor> shared);
  std::int64_t bytes() const;

  /// Copies that are due, and what lives until they have ended.
  struct Move {
    std::vector<RegionCopy> copies;
    std::shared_ptr<void> left;  // memory that the tensors have no more
  };
  /// To one region of host memory. Nothing may read the tensors from now on. Throws what empty_in throws, and nothing
  /// is changed then.
  Move move_out();
  /// Back, to memory of the device for each, which may be read once the copies have ended. The host memory lives as
  /// long as this. Throws what LibTorch throws where there is no memory, and nothing is changed then.
  std::vector<RegionCopy> move_in();

 private:
  friend void note_saved(std::initializer_list<at::Tensor> tensors);
  std::vector<c10::Storage> storages_;  // each once
  at::Tensor host_;
};

/// For the forward of functions: what they computed and backward reads. Undefined tensors are passed over.
void note_saved(std::initializer_list<at::Tensor> tensors);

}  // namespace lockstep
