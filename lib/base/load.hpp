// A value of the machine's byte order that lies anywhere in bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace lockstep {

/// The value that begins at `offset`, aligned or not. `bytes` must reach to its end.
template <class Value>
Value load(std::span<const std::byte> bytes, std::uint64_t offset = 0) {
  static_assert(std::is_trivially_copyable_v<Value>);
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace lockstep
