// Token ids as elements of a file, of any integer type and at any offset, as in token files of other programs. The
// place of these elements: OutsideTokens of store/token_shards.hpp.
#pragma once

#include "layout/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace lockstep {

/// The lowest and the highest of some ids, as they stand in the file.
struct IdRange {
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
  std::int64_t highest = std::numeric_limits<std::int64_t>::min();

  void add(const IdRange& other);
  /// Returns one of them that is not an id below `vocabulary`; nothing if both are.
  std::optional<std::int64_t> outside(std::int64_t vocabulary) const;
};

/// Returns whether ids may be elements of this type: an integer.
bool can_hold_tokens(DType dtype);

/// Copies all elements of `bytes`, little-endian and unaligned, to the front of `out`. A value beyond int32 is
/// truncated in `out`, and the result shows it. Throws Error(bug) for a type that holds no tokens.
IdRange copy_ids(std::span<const std::byte> bytes, DType dtype, std::span<std::int32_t> out);

}  // namespace lockstep
