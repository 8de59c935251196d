// Ring attention, for autograd: causal self-attention over segments whose rows a ring of ranks shares (context
// parallelism; layout/sequence.hpp). Keys and values go around the ring, and in backward their gradients go with them.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/attention.hpp"
#include "tensor/kernels/attention_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// The rows of each of R ranks, from the segments of a micro-batch.
struct RingSegments {
  at::Tensor parts;      // (R, S, 2, 3) int64: SequenceParts
  at::Tensor positions;  // (R, N) int32
};

/// qkv (N, (H + 2·KV)·D) compute type → (N, H·D); rows that belong to no part are 0. `rotary` and `dropout` as in
/// causal_attention; the places of `dropout` are those of this rank's rows. `values` as in causal_attention, except
/// that backward also reads y, so known values must include it. Forward and backward are Collective over the ranks of
/// `lane`.
at::Tensor ring_attention(const at::Tensor& qkv, const AttentionShape& shape, const RingSegments& segments,
                          const at::Tensor& rotary, const BlockLane& lane, const Dropout& dropout = {},
                          std::int64_t first_head = 0, AttentionValues* values = nullptr);

}  // namespace lockstep
