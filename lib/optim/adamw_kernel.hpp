// The arithmetic of AdamW and of gradient norms on raw pointers: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// One step's factors for elements with equal settings, as torch.optim.AdamW uses them.
template <class M>
struct AdamWFactors {
  M gradient_scale;  // the clip factor
  M keep;            // 1 − lr · weight decay
  M beta1, beta2;
  M step_size;   // lr / (1 − β1^t)
  M correction;  // √(1 − β2^t)
  M epsilon;
};

/// Updates elements [0, count). Moments are kept as S, rounded to nearest; `compute` is the rounded copy, or nullptr
/// where the weights are read as they are.
template <class M, class S>
void adamw_update(const AdamWFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, S* first, S* second,
                  Bf16* compute);

/// Σ value², in fp64 over blocks of fixed size: the same for any number of threads.
template <class M>
double sum_of_squares(const M* values, std::int64_t count);

}  // namespace lockstep
