// Weights in another type: fp64, fp32, bf16 and fp16 from each other, rounded once to the nearest value, ties to even.
#pragma once

#include "layout/dtype.hpp"

#include <cstddef>
#include <span>

namespace lockstep {

/// The elements of `from` in the type `to`; both types are floating with 16 bits or more, and the spans have as many
/// elements. What is beyond the range becomes infinity, NaN stays NaN. Local.
void cast(DType from, std::span<const std::byte> values, DType to, std::span<std::byte> out);

}  // namespace lockstep
