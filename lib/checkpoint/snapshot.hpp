// A snapshot is a copy of the bytes that a rank saves, so that training continues while they are written. Its memory is
// allocated and touched once and serves all saves of a run.
#pragma once

#include "base/free_memory.hpp"
#include "device/region.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

class Snapshot {
 public:
  /// Provides at least `bytes` bytes of touched memory; never shrinks. Throws Error(resources). Local.
  void reserve(std::uint64_t bytes);
  std::uint64_t capacity() const { return capacity_; }
  /// Returns the bytes that copies of `pieces` take. A piece of a page or more begins at a page. Pure.
  static std::uint64_t room_for(std::span<const Region> pieces);
  /// Copies the first pieces, as many as fit, and returns their copies in order. It overwrites the copies of the call
  /// before. At least one piece must fit. Uses several threads, or waits for the device once. Local.
  std::vector<std::span<const std::byte>> take(std::span<const Region> pieces);

 private:
  std::unique_ptr<std::byte, FreeMemory> memory_;
  std::uint64_t capacity_ = 0;
};

}  // namespace lockstep
