// Casts weights between fp64, fp32, bf16 and fp16: rounded once to the nearest value, ties to even.
#pragma once

#include "layout/dtype.hpp"

#include <cstddef>
#include <span>

namespace lockstep {

/// Casts elements of type `from` to type `to`. Both types are floating with 16 bits or more, and both spans have the
/// same number of elements. Values out of range become infinity, NaN stays NaN. Local.
void cast(DType from, std::span<const std::byte> values, DType to, std::span<std::byte> out);

}  // namespace lockstep
