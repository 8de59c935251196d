// Scratch memory that a thread keeps from product to product, in huge pages if the system has them.
#pragma once

#include "base/free_memory.hpp"
#include "base/rounding.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace lockstep {

template <class T>
class Scratch {
 public:
  /// Returns memory for `count` values; old contents may be lost.
  T* upto(std::int64_t count) {
    if (count > count_) {
      constexpr std::int64_t huge_page = std::int64_t{2} << 20;
      const auto bytes = static_cast<std::size_t>(rounded_up(count * static_cast<std::int64_t>(sizeof(T)), huge_page));
      values_.reset(static_cast<T*>(std::aligned_alloc(huge_page, bytes)));
      if (!values_) {
        count_ = 0;
        throw std::bad_alloc();
      }
#ifdef MADV_HUGEPAGE
      ::madvise(values_.get(), bytes, MADV_HUGEPAGE);
#endif
      count_ = count;
    }
    return values_.get();
  }

 private:
  std::unique_ptr<T, FreeMemory> values_;
  std::int64_t count_ = 0;
};

}  // namespace lockstep
