// Causal self-attention over segments whose rows a ring of ranks shares (layout/sequence.hpp), for autograd: keys and
// values go around the ring, and in backward their gradients with them.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/attention.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// What each of R ranks has of the segments of a micro-batch.
struct RingSegments {
  at::Tensor parts;      // (R, S, 2, 3) int64: SequenceParts
  at::Tensor positions;  // (R, N) int32
};

/// qkv (N, (H + 2·KV)·D) compute type → (N, H·D), of rows that are in no part 0; `rotary` and `dropout`, whose places
/// are those of own rows, as causal_attention has them. Collective over the ranks of `lane`, and so is its backward.
/// `values` are as causal_attention has them, but that backward reads y as well: known ones have it.
at::Tensor ring_attention(const at::Tensor& qkv, const AttentionShape& shape, const RingSegments& segments,
                          const at::Tensor& rotary, const BlockLane& lane, const Dropout& dropout = {},
                          std::int64_t first_head = 0, AttentionValues* values = nullptr);

}  // namespace lockstep
