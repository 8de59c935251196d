// The arithmetic of SGD on raw pointers: plain functions.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/kernels/update_kernel.hpp"

namespace lockstep {

/// Factors of one step for elements with equal settings.
template <class M>
struct SgdFactors {
  M gradient_scale;  // the clip factor
  M lr;
  M decay;
  M momentum;
  bool nesterov;
};

/// Updates elements [0, count). `buffer` is the momentum buffer, zero before the first step, or nullptr without
/// momentum; `compute` is the rounded copy, or nullptr if kernels read the weights directly.
template <class M>
void sgd_update(const SgdFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, M* buffer,
                Bf16* compute);

/// Updates the weights of a unit of `length` elements: gradient and buffer are its flat buffers.
template <class M>
void sgd(const std::vector<Stretch<SgdFactors<M>>>& stretches, std::int64_t length, const UpdatedWeights<M>& weights,
         const M* gradient, M* buffer);

}  // namespace lockstep
