// A snapshot is a copy of the bytes that a rank brings to a save, so that training may go on while they are written.
// The memory for it is taken once and touched, and serves all saves of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

class Snapshot {
 public:
  /// Memory for so many bytes, touched; more than before where it was less. Throws Error(resources). Local.
  void reserve(std::uint64_t bytes);
  std::uint64_t capacity() const { return capacity_; }
  /// The room that copies of `pieces` take, each at a page of its own if it has one. Pure.
  static std::uint64_t room_for(std::span<const std::span<const std::byte>> pieces);
  /// Copies as many of the pieces, from the first on, as there is room for, and returns where: as many entries as were
  /// copied. What was copied before is gone. At least one piece has to fit. By several threads. Local.
  std::vector<std::span<const std::byte>> take(std::span<const std::span<const std::byte>> pieces);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::uint64_t capacity_ = 0;
};

}  // namespace lockstep
