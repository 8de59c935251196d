// From own rows of all heads to all rows of own heads, and back, among ranks that share sequences along ulysses (Jacobs
// et al., "DeepSpeed Ulysses", 2023): for autograd. Where there are fewer key heads than ranks, neighbours have the
// same one, and its gradient is the sum of theirs.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// The heads of one of so many ranks, which share those of `all`.
AttentionShape share_of(const AttentionShape& all, std::int64_t ranks);

// Collective over the ranks of `lane`, U of them; N rows of each, those of all by rank.
// What is `known` is taken without a word to them.
/// qkv (N, (H + 2·KV)·D) → (U·N, (H/U + 2·max(1, KV/U))·D).
at::Tensor to_own_heads(const at::Tensor& qkv, const AttentionShape& all, const BlockLane& lane,
                        const at::Tensor& known = {});
/// y (U·N, H/U·D) → (N, H·D).
at::Tensor to_own_rows(const at::Tensor& y, const BlockLane& lane, const at::Tensor& known = {});

}  // namespace lockstep
