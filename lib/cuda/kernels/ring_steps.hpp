// Ring attention on the device, one step at a time. Contracts: tensor/kernels/ring_attention_kernel.hpp. A head has at
// most 256 elements.
#pragma once

#include "tensor/kernels/ring_attention_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void ring_attention_forward(const RingStep& step, const T* qkv, const T* kv, Rotation<Math<T>> rotation, Math<T>* y,
                            Math<T>* log_sums, const AttentionDropout& dropout);
template <class T>
void ring_attention_result(const RingStep& step, const Math<T>* sums, T* y);
template <class T>
void ring_attention_products(const RingStep& step, const T* dy, const T* y, Math<T>* products);
template <class T>
void ring_attention_backward(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<Math<T>> rotation,
                             const Math<T>* log_sums, const Math<T>* products, Math<T>* dq, Math<T>* dkv,
                             const AttentionDropout& dropout);
template <class T>
void ring_attention_gradient(const RingStep& step, const Math<T>* dq, const Math<T>* dkv, Rotation<Math<T>> rotation,
                             T* dqkv);

}  // namespace lockstep::cuda
