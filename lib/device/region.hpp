// Regions of memory and the arena that each lies in. On the CPU both arenas are memory of one machine, each with its
// own counters and limit (tensor/arena.hpp). On a device the same names mean its own memory, which the host may not
// touch, and the host memory that it can read. Copies between them: device/device.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace lockstep {

/// device: memory that kernels compute in; host: memory for values that they do not need now.
enum class Arena : std::uint8_t { device, host };

struct Region {
  Arena arena{};
  std::byte* pointer = nullptr;
  std::size_t bytes = 0;

  Region() = default;
  Region(Arena of, std::byte* begin, std::size_t length) : arena(of), pointer(begin), bytes(length) {}
  /// Host memory: a span or a container of bytes. A region of constant bytes is only read.
  template <class Bytes>
    requires std::is_convertible_v<Bytes&, std::span<const std::byte>>
  Region(Bytes&& host) : arena(Arena::host) {
    const std::span<const std::byte> view(host);
    pointer = const_cast<std::byte*>(view.data());
    bytes = view.size();
  }
};

/// Bytes [begin, begin + bytes) of a region.
inline Region part_of(const Region& whole, std::size_t begin, std::size_t bytes) {
  return {whole.arena, whole.pointer + begin, bytes};
}

/// RegionCopy is a copy from one region to another of the same length.
struct RegionCopy {
  Region from, to;
};

}  // namespace lockstep
