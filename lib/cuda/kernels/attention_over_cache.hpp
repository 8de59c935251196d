// Attention over a cache of keys and values on the device, for all types. Contract:
// tensor/kernels/cached_attention_kernel.hpp. A head has at most 256 elements; the launch of a larger one is reported
// as failed. Products use no tensor cores.
#pragma once

#include "tensor/kernels/cached_attention_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void cached_attention(const T* qkv, const AttentionShape& shape, const CachedTexts& texts, Rotation<Math<T>> rotation,
                      T* cache, T* y);

}  // namespace lockstep::cuda
