// All-to-all of context parallelism along ulysses (Jacobs et al., "DeepSpeed Ulysses", 2023), for autograd: from this
// rank's rows of all heads to all rows of this rank's heads, and back. If there are fewer key heads than ranks,
// neighbours hold the same key head, and its gradient is the sum of theirs.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

// Both are Collective over the U ranks of `lane`, with N rows on each; all rows are ordered by rank. A defined `known`
// result is returned without communication.
/// qkv (N, (H + 2·KV)·D) → (U·N, (H/U + 2·max(1, KV/U))·D).
at::Tensor to_own_heads(const at::Tensor& qkv, const AttentionShape& all, const BlockLane& lane,
                        const at::Tensor& known = {});
/// y (U·N, H/U·D) → (N, H·D).
at::Tensor to_own_rows(const at::Tensor& y, const BlockLane& lane, const at::Tensor& known = {});

}  // namespace lockstep
