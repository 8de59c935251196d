// The arithmetic of Lion on raw pointers: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/kernels/update_kernel.hpp"

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

/// Updates the weights of a unit of `length` elements: gradient and average are its flat buffers.
template <class M, class S>
void lion(const std::vector<Stretch<LionFactors<M>>>& stretches, std::int64_t length, const UpdatedWeights<M>& weights,
          const M* gradient, S* average);

}  // namespace lockstep
