// A kernel that works row by row gives a thread at least so many rows at once that waking it pays.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// The rows of `columns` values each that make up `values` values; at least one.
inline std::int64_t row_grain(std::int64_t columns, std::int64_t values) {
  return std::max<std::int64_t>(1, values / std::max<std::int64_t>(1, columns));
}

}  // namespace lockstep
