// How much memory numerical work holds: the bytes that tensors (tensor/memory.hpp) and the scratch memory of kernels
// asked for and have not given back. What the memory plan (engine/make_model_plan.hpp) predicts; the process also has
// what allocators round up and keep. Needs no LibTorch.
#pragma once

#include "base/region.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace lockstep {

/// Of this process. Any thread.
std::int64_t live_bytes(Arena arena = Arena::device);
/// The most since the start or the last reset.
std::int64_t peak_live_bytes(Arena arena = Arena::device);
/// Of all arenas.
void reset_peak_live_bytes();

/// For allocators: `bytes` more, or fewer.
void count_live_bytes(std::int64_t bytes, Arena arena = Arena::device);

/// An allocator of aligned memory that counts: how a BLAS adds up may depend on where its operands begin.
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
