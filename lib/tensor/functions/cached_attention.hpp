// Attention of rows of texts over a cache of their keys and values. Without autograd. In training:
// tensor/functions/attention.hpp.
#pragma once

#include "tensor/functions/attention.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// The new rows of texts, and where the texts lie in a cache.
struct CachedRows {
  AttentionSegments segments;  // the rows of each text
  at::Tensor slots;            // int32 (S): the place of each of these texts in the cache
  at::Tensor positions;        // int32 (N): of each row in its text
};

/// qkv (N, (H + 2·KV)·D) compute type → (N, H·D): each row attends to the positions of its text up to its own. The keys
/// and values of the rows are stored in `cache` (texts, 2·KV, capacity, D), which holds those of earlier positions.
/// `rotary` as in causal_attention. Local.
at::Tensor cached_attention(const at::Tensor& qkv, const AttentionShape& shape, const CachedRows& rows,
                            const at::Tensor& rotary, const at::Tensor& cache);

}  // namespace lockstep
