// Statistics of values on the device. Contract: tensor/kernels/statistics_kernel.hpp.
#pragma once

#include "tensor/kernels/statistics_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void add_statistics(const T* values, std::int64_t count, Statistics* sum);

}  // namespace lockstep::cuda
