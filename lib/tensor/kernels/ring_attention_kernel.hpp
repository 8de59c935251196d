// Ring attention, one step at a time: this rank's queries attend to the keys of one rank of the ring. Partial results
// are combined by the logarithms of their softmax sums (Liu et al., "Ring Attention with Blockwise Transformers",
// 2023). Sums between steps are kept head by head in the math type, (heads, N, D); heads are rotated if there is a
// rotation.
#pragma once

#include "layout/sequence.hpp"
#include "tensor/kernels/attention_kernel.hpp"

namespace lockstep {

/// The rows of one rank of the ring: two parts for each segment (layout/sequence.hpp), and the position of each row.
struct RingRows {
  const SequencePart* parts;
  const std::int32_t* positions;  // (N), read only with a rotation
};

/// Arguments of one step: N rows of each rank, with parts of `segments` segments.
struct RingStep {
  AttentionShape shape;
  std::int64_t rows = 0;
  std::int64_t segments = 0;
  RingRows own, theirs;  // rows of the queries and of the keys
};

/// Adds to y (H, N, D) and log_sums (N, H), which begin as 0 and −∞, the attention of queries of qkv (N, (H + 2·KV)·D)
/// to keys and values kv (N, 2·KV·D).
template <class T>
void ring_attention_forward(const RingStep& step, const T* qkv, const T* kv, Rotation<Math<T>> rotation, Math<T>* y,
                            Math<T>* log_sums, const AttentionDropout& dropout);
/// y (N, H·D) = the result of all steps, rounded to T.
template <class T>
void ring_attention_result(const RingStep& step, const Math<T>* sums, T* y);

/// products (N, H) = Σ dy·y of each head.
template <class T>
void ring_attention_products(const RingStep& step, const T* dy, const T* y, Math<T>* products);
/// Adds the gradients of one step to dq (H, N, D) and dkv (2·KV, N, D), which are of rotated heads; log_sums and
/// products are totals over all steps.
template <class T>
void ring_attention_backward(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<Math<T>> rotation,
                             const Math<T>* log_sums, const Math<T>* products, Math<T>* dq, Math<T>* dkv,
                             const AttentionDropout& dropout);
/// dqkv (N, (H + 2·KV)·D) from the sums of all steps.
template <class T>
void ring_attention_gradient(const RingStep& step, const Math<T>* dq, const Math<T>* dkv, Rotation<Math<T>> rotation,
                             T* dqkv);

}  // namespace lockstep
