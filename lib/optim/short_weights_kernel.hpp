// Weights that are kept in bf16 alone, before and behind an update in fp32, with what rounding takes from them: their
// sum is what is updated (compensated summation: Kahan, 1965). Plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// wide[i] = weight[i] + rest[i] for i in [0, count); a null `rest` is nothing.
void widen_weights(std::int64_t count, const Bf16* weight, const Bf16* rest, float* wide);

/// weight[i] is wide[i] rounded to nearest, and rest[i] what that took, rounded in turn, where it is kept.
void round_weights(std::int64_t count, const float* wide, Bf16* weight, Bf16* rest);

}  // namespace lockstep
