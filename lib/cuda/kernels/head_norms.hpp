// RMS norms over heads of queries and keys on the device. Contracts: tensor/kernels/head_norm_kernel.hpp. A head has at
// most 256 elements; the launch of a larger one is reported as failed.
#pragma once

#include "tensor/kernels/head_norm_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void head_norm_forward(const T* qkv, const AttentionShape& shape, const T* query_weight, const T* key_weight,
                       double eps, std::int64_t rows, T* y, Math<T>* rstd);
template <class T>
void head_norm_backward(const T* dy, const T* qkv, const AttentionShape& shape, const T* query_weight,
                        const T* key_weight, const Math<T>* rstd, std::int64_t rows, T* dqkv, Math<T>* dquery_weight,
                        double query_beta, Math<T>* dkey_weight, double key_beta);

}  // namespace lockstep::cuda
