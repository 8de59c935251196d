// Causal self-attention over the segments of a batch, for autograd. With context parallelism along the ring:
// tensor/functions/ring_attention.hpp.
#pragma once

#include "tensor/functions/dropout.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace lockstep {

/// Values of an attention forward that recomputation may keep: the output, and the sums that backward reads.
struct AttentionValues {
  at::Tensor y;         // (N, H·D)
  at::Tensor log_sums;  // (N, H) fp32 or fp64: logarithms of the softmax sums
  // Backward may read y, which has its values and is kept until then for other readers too.
  bool keeps_y = false;
};

/// The segments of attention in the rows of a batch.
struct AttentionSegments {
  at::Tensor starts;         // int64 (S + 1): the first row of each, then N
  std::int64_t longest = 0;  // rows of the longest one, or more; 0: unknown
  AttentionSegments(at::Tensor begins, std::int64_t most = 0) : starts(std::move(begins)), longest(most) {}
};

/// qkv (N, (H + 2·KV)·D) compute type → (N, H·D). positions int32 (N); `rotary` is undefined or
/// RotaryTable::table_for(length of the samples, largest position + 1). `dropout` applies to the softmax; its first
/// head has the number `first_head`. If `values` has log_sums, nothing is computed and these values are used; y may
/// then be undefined if nothing reads it. Otherwise `values` is filled.
at::Tensor causal_attention(const at::Tensor& qkv, const AttentionShape& shape, const AttentionSegments& segments,
                            const at::Tensor& positions, const at::Tensor& rotary, const Dropout& dropout = {},
                            std::int64_t first_head = 0, AttentionValues* values = nullptr);

}  // namespace lockstep
