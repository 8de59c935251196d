// Memory and where it lies. With the CPU alone both arenas are memory of one machine, each with counters and a limit of
// its own (tensor/arena.hpp); behind the same names a device has its memory, and the host memory that it can read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

/// device: what kernels compute in; host: what holds that which they do not need now.
enum class Arena : std::uint8_t { device, host };

struct Region {
  Arena arena{};
  std::byte* pointer = nullptr;
  std::size_t bytes = 0;
};

/// From one region to another one as long.
struct RegionCopy {
  Region from, to;
};

}  // namespace lockstep
