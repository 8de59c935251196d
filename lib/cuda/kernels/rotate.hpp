// Rotary positions of queries and keys on the device, for attention that does not rotate them itself.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"

namespace lockstep::cuda {

/// RotateBy says whether heads are rotated by their positions, or back, as their gradients are.
enum class RotateBy { position, minus_position };

/// y (rows, (H + 2·KV)·D) = qkv with the heads of queries and keys rotated; values are copied. y may be qkv.
template <class T>
void rotate_heads(const T* qkv, const AttentionShape& shape, Rotation<Math<T>> rotation, const std::int32_t* positions,
                  std::int64_t rows, RotateBy by, T* y);

/// y (rows, (H + 2·KV)·D) = the gradients dq (rows, H·D), dk and dv (rows, KV·D) side by side, those of queries and
/// keys rotated back. Without a rotation they are copied, and `positions` is not read.
template <class T>
void join_gradients(const T* dq, const T* dk, const T* dv, const AttentionShape& shape, Rotation<Math<T>> rotation,
                    const std::int32_t* positions, std::int64_t rows, T* y);

}  // namespace lockstep::cuda
