// Causal self-attention over the segments of a batch, for autograd.
#pragma once

#include "tensor/functions/dropout.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// What attention computes: what it gives, and what backward reads beside its input.
struct AttentionValues {
  at::Tensor y;         // (N, H·D)
  at::Tensor log_sums;  // (N, H) fp32 or fp64: logarithms of the soft-max sums
};

/// qkv (N, (H + 2·KV)·D) compute type → (N, H·D). segments int64 (S + 1), positions int32 (N); `rotary` is an undefined
/// tensor or RotaryTable::table_for(length of the samples, largest position + 1). `dropout` takes from the soft-max,
/// whose first head is number `first_head`.
/// `values` with log_sums are taken instead of computing them, where y is undefined for a y that nothing reads; others
/// are filled.
at::Tensor causal_attention(const at::Tensor& qkv, const AttentionShape& shape, const at::Tensor& segments,
                            const at::Tensor& positions, const at::Tensor& rotary, const Dropout& dropout = {},
                            std::int64_t first_head = 0, AttentionValues* values = nullptr);

}  // namespace lockstep
