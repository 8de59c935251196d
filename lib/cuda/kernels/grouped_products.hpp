// Products of experts on the device: each group of rows with a matrix of its own. Contract: tensor/grouped_gemm.hpp.
#pragma once

#include "tensor/grouped_gemm.hpp"

#include <cstdint>

namespace lockstep::cuda {

template <class T>
void grouped_gemm_rounded(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* x, const T* weights,
                          Trans trans, T* y);
template <class T>
void grouped_weight_gemm(const RowGroups& groups, std::int64_t n, std::int64_t k, const T* dy, const T* x, double beta,
                         Math<T>* dweights);

}  // namespace lockstep::cuda
