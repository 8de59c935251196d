// The arithmetic of AdamW on raw pointers: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/kernels/update_kernel.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// Factors of one step for elements with equal settings, as in torch.optim.AdamW.
template <class M>
struct AdamWFactors {
  M gradient_scale;  // the clip factor
  M keep;            // 1 − lr · weight decay
  M beta1, beta2;
  M step_size;   // lr / (1 − β1^t)
  M correction;  // √(1 − β2^t)
  M epsilon;
};

/// Updates elements [0, count). Moments are stored as S, rounded to nearest; `compute` is the rounded copy, or nullptr
/// if kernels read the weights directly.
template <class M, class S>
void adamw_update(const AdamWFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, S* first, S* second,
                  Bf16* compute);

/// Updates the weights of a unit of `length` elements: gradient, first and second are its flat buffers.
template <class M, class S>
void adamw(const std::vector<Stretch<AdamWFactors<M>>>& stretches, std::int64_t length,
           const UpdatedWeights<M>& weights, const M* gradient, S* first, S* second);

}  // namespace lockstep
