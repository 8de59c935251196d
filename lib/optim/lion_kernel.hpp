// The arithmetic of Lion on raw pointers: a plain function.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// Factors of one step for elements with equal settings.
template <class M>
struct LionFactors {
  M gradient_scale;  // the clip factor
  M lr;
  M keep;  // 1 − lr · weight decay
  M beta1, beta2;
};

/// Updates elements [0, count) of type M. The average is stored as S, rounded to nearest; `compute` is the rounded
/// copy, or nullptr if kernels read the weights directly.
template <class M, class S>
void lion_update(const LionFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, S* average,
                 Bf16* compute);

}  // namespace lockstep
