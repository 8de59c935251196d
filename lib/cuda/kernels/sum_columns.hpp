// Sums over rows on the device, for the gradients of biases. Contract: tensor/kernels/column_sums.hpp.
#pragma once

#include "tensor/kernels/column_sums.hpp"

namespace lockstep::cuda {

template <class T>
void column_sums(const T* values, std::int64_t rows, std::int64_t columns, std::int64_t stride, double beta,
                 Math<T>* target);

}  // namespace lockstep::cuda
