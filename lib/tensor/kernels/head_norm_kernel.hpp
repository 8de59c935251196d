// RMS norms over single heads of queries and keys (QK-norm), within rows of q, k and v in the layout that attention
// reads: plain forward and backward.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"

namespace lockstep {

/// y (rows, (H + 2·KV)·D) = qkv with each head of the queries and keys divided by its root mean square and multiplied
/// by its weight (D); values are copied. Stores 1 / √(mean(x²) + eps) in rstd (rows, H + KV).
template <class T>
void head_norm_forward(const T* qkv, const AttentionShape& shape, const T* query_weight, const T* key_weight,
                       double eps, std::int64_t rows, T* y, Math<T>* rstd);

/// Gradients of the weights (D), over all rows and heads, become contribution + β·(their old values).
template <class T>
void head_norm_backward(const T* dy, const T* qkv, const AttentionShape& shape, const T* query_weight,
                        const T* key_weight, const Math<T>* rstd, std::int64_t rows, T* dqkv, Math<T>* dquery_weight,
                        double query_beta, Math<T>* dkey_weight, double key_beta);

}  // namespace lockstep
