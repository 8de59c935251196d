// Causal attention on the device, for all types, with dropout. Contracts: tensor/kernels/attention_kernel.hpp. A head
// has at most 256 elements; the launch of a larger one is reported as failed. Products use no tensor cores.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout);
template <class T>
void attention_backward(const T* dy, const T* qkv, const T* y, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout);

}  // namespace lockstep::cuda
