// Converts elements of any type to numbers for display: exact except for 64-bit integers beyond 2^53. Not for
// computation.
#pragma once

#include "layout/dtype.hpp"

#include <cstddef>
#include <span>

namespace lockstep {

/// Returns the value of the element at the beginning of `bytes`. Bytes of fp8 follow the OCP formats E4M3 (no infinity)
/// and E5M2.
double value_of(DType dtype, std::span<const std::byte> bytes);

}  // namespace lockstep
