// Grain of row-wise kernels: each thread gets enough rows that waking it pays off.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

/// Rows of `columns` values each that hold about `values` values; at least one.
inline std::int64_t row_grain(std::int64_t columns, std::int64_t values) {
  return std::max<std::int64_t>(1, values / std::max<std::int64_t>(1, columns));
}

}  // namespace lockstep
