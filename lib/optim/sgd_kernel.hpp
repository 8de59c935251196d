// The arithmetic of SGD on raw pointers: a plain function.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// One step's factors for elements with equal settings.
template <class M>
struct SgdFactors {
  M gradient_scale;  // the clip factor
  M lr;
  M decay;
  M momentum;
  bool nesterov;
};

/// Updates elements [0, count). `buffer` is what momentum keeps, zero before the first step, or nullptr without it;
/// `compute` is the rounded copy, or nullptr where the weights are read as they are.
template <class M>
void sgd_update(const SgdFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, M* buffer,
                Bf16* compute);

}  // namespace lockstep
