// Regions of memory and the arena that each lies in. On the CPU both arenas are memory of one machine, each with its
// own counters and limit (tensor/arena.hpp). On a device the same names mean its own memory, and the host memory that
// it can read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// device: memory that kernels compute in; host: memory for values that they do not need now.
enum class Arena : std::uint8_t { device, host };

struct Region {
  Arena arena{};
  std::byte* pointer = nullptr;
  std::size_t bytes = 0;
};

/// RegionCopy is a copy from one region to another of the same length.
struct RegionCopy {
  Region from, to;
};

}  // namespace lockstep
