// Sums of a step on the device. Contracts: tensor/kernels/sums_kernel.hpp; the order of a sum depends only on its
// length.
#pragma once

#include "tensor/kernels/sums_kernel.hpp"

namespace lockstep::cuda {

template <class M>
void add_square_sum(const M* values, std::int64_t count, double* sum);
void sum_in_order(const double* values, std::int64_t count, double* sum);
void add_value(const double* value, bool counts, double* sum);

}  // namespace lockstep::cuda
