// Addresses of more values than memory could hold, of which a test touches a few: the others read as 0.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

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

 private:
  std::size_t bytes_;
  void* memory_;
};

}  // namespace lockstep::test
