// Addresses of more values than memory could hold, of which a test touches a few: the others read as 0.
#pragma once

#include "tensor/kernels/number.hpp"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace lockstep::test {

template <class T>
class DistantMemory {
 public:
  explicit DistantMemory(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("cannot reserve addresses");
  }
  ~DistantMemory() { ::munmap(memory_, bytes_); }
  DistantMemory(const DistantMemory&) = delete;
  DistantMemory& operator=(const DistantMemory&) = delete;
  T* data() { return static_cast<T*>(memory_); }
  /// Elements [begin, begin + count) as numbers.
  std::vector<double> values(std::int64_t begin, std::int64_t count) {
    std::vector<double> read;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      if constexpr (std::is_integral_v<T>)
        read.push_back(static_cast<double>(data()[i]));
      else
        read.push_back(static_cast<double>(load(data()[i])));
    }
    return read;
  }
  /// Sets elements from `begin` on.
  void set(std::int64_t begin, const std::vector<double>& values) {
    for (const double value : values) {
      if constexpr (std::is_integral_v<T>)
        data()[begin++] = static_cast<T>(value);
      else
        store(data()[begin++], static_cast<Math<T>>(value));
    }
  }

 private:
  std::size_t bytes_;
  void* memory_;
};

}  // namespace lockstep::test
