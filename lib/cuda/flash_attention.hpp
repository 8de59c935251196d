// Attention of the kernel table on a GPU: LibTorch's flash attention where choose_gpu_attention
// (architecture/gpu_attention.hpp) says so, and otherwise the plug-in's own kernel (cuda/kernels/causal_attention.hpp).
// Contract: tensor/kernels/attention_kernel.hpp.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"

#include <c10/core/Device.h>

#include <cstdint>

namespace lockstep::cuda {

/// The device of LibTorch's tensors, for memory of the device in use. The plug-in defines it.
c10::Device tensor_device();

/// The own kernel also computes batches of more than 65535 segments, and memory that is not aligned to 16 bytes. Throw
/// Error(resources) for an error of LibTorch, which is the failure of the device if it ends the context, and
/// c10::OutOfMemoryError.
template <class T>
void gpu_attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                           const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout);
template <class T>
void gpu_attention_backward(const T* dy, const T* qkv, const T* y, const Math<T>* log_sums, const AttentionShape& shape,
                            Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                            const AttentionDropout& dropout);

}  // namespace lockstep::cuda
