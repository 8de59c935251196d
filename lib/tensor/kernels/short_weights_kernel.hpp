// Conversion of weights that are kept only in bf16, before and after an update in fp32. The rounding error may be kept
// too; the update then applies to the sum of both (compensated summation: Kahan, 1965). Plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// wide[i] = weight[i] + rest[i] for i in [0, count); `rest` nullptr: zero.
void widen_weights(std::int64_t count, const Bf16* weight, const Bf16* rest, float* wide);

/// weight[i] = wide[i] rounded to nearest; rest[i] = the rounding error, rounded to bf16 too; `rest` nullptr: it is not
/// kept.
void round_weights(std::int64_t count, const float* wide, Bf16* weight, Bf16* rest);

}  // namespace lockstep
