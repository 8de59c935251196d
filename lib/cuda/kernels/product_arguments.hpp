// Arguments of products in the type that cublasLt wants: biases of fp32 results, and factors that lie on the device.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep::cuda {

/// out = the `count` values of x, exactly. T is Bf16 or Fp16.
template <class T>
void widen_row(const T* x, std::int64_t count, float* out);

/// factors = the two values *alpha and beta. M is float or double.
template <class M>
void product_factors(const double* alpha, double beta, M* factors);

}  // namespace lockstep::cuda
