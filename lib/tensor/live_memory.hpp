// Counters of memory used by numerical work: bytes requested by tensors (tensor/memory.hpp) and by scratch memory of
// kernels and not yet freed. The memory plan (engine/make_model_plan.hpp) predicts these bytes; rounding and caches of
// allocators come on top. Needs no LibTorch.
#pragma once

#include "device/region.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace lockstep {

/// Bytes of this process. Any thread.
std::int64_t live_bytes(Arena arena = Arena::device);
/// Maximum since the start or the last reset, in bytes.
std::int64_t peak_live_bytes(Arena arena = Arena::device);
/// Resets the maximum of all arenas.
void reset_peak_live_bytes();

/// Called by allocators: adds `bytes`, which is negative when memory is freed.
void count_live_bytes(std::int64_t bytes, Arena arena = Arena::device);
/// Called by allocators of tensors in the device arena, in its place; a TensorWatch of the thread sees it too.
void count_tensor_bytes(std::int64_t bytes);

/// Counts, while it lives, the tensors that its thread makes and frees. Not nested.
class TensorWatch {
 public:
  TensorWatch();
  ~TensorWatch();
  TensorWatch(const TensorWatch&) = delete;
  TensorWatch& operator=(const TensorWatch&) = delete;
  std::int64_t now() const { return now_; }    // bytes made and not freed
  std::int64_t most() const { return most_; }  // maximum of that

 private:
  friend void count_tensor_bytes(std::int64_t bytes);
  std::int64_t now_ = 0, most_ = 0;
};

/// An allocator that counts its memory and aligns it to 64 bytes, because the order in which a BLAS sums may depend on
/// the alignment of its operands.
template <class T>
class CountedAllocator {
  static constexpr std::align_val_t alignment{64};

 public:
  using value_type = T;
  CountedAllocator() = default;
  template <class Other>
  CountedAllocator(const CountedAllocator<Other>&) {}

  T* allocate(std::size_t count) {
    auto* const values = static_cast<T*>(::operator new(count * sizeof(T), alignment));
    count_live_bytes(static_cast<std::int64_t>(count * sizeof(T)));
    return values;
  }
  void deallocate(T* values, std::size_t count) {
    count_live_bytes(-static_cast<std::int64_t>(count * sizeof(T)));
    ::operator delete(values, alignment);
  }
  bool operator==(const CountedAllocator&) const = default;
};

/// Scratch memory of a kernel.
template <class T>
using ScratchVector = std::vector<T, CountedAllocator<T>>;

}  // namespace lockstep
