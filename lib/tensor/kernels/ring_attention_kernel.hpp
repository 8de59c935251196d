// Attention of a rank's queries over the keys of one rank of a ring at a time: partial results are put together by the
// logarithms of their soft-max sums (Liu et al., "Ring Attention with Blockwise Transformers", 2023). Sums between
// steps are kept head by head in the math type, (heads, N, D), of heads that are turned where there is a rotation.
#pragma once

#include "layout/sequence.hpp"
#include "tensor/kernels/attention_kernel.hpp"

namespace lockstep {

/// The rows of one rank of the ring: parts of segments, two for each (layout/sequence.hpp), and by row the position.
struct RingRows {
  const SequencePart* parts;
  const std::int32_t* positions;  // (N), read only with a rotation
};

/// What all steps have alike: N rows of each rank, parts of `segments` segments.
struct RingStep {
  AttentionShape shape;
  std::int64_t rows = 0;
  std::int64_t segments = 0;
  RingRows own, theirs;  // of the queries and of the keys
};

/// Adds to y (H, N, D) and log_sums (N, H), which begin as 0 and −∞, what queries of qkv (N, (H + 2·KV)·D) get of keys
/// and values kv (N, 2·KV·D).
template <class T>
void ring_attention_forward(const RingStep& step, const T* qkv, const T* kv, Rotation<Math<T>> rotation, Math<T>* y,
                            Math<T>* log_sums, const AttentionDropout& dropout);
/// y (N, H·D) = what all steps have given, rounded to T.
template <class T>
void ring_attention_result(const RingStep& step, const Math<T>* sums, T* y);

/// products (N, H) = Σ dy·y of each head.
template <class T>
void ring_attention_products(const RingStep& step, const T* dy, const T* y, Math<T>* products);
/// Adds to dq (H, N, D) and dkv (2·KV, N, D), of turned heads, what the step gives; log_sums and products are those of
/// all steps.
template <class T>
void ring_attention_backward(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<Math<T>> rotation,
                             const Math<T>* log_sums, const Math<T>* products, Math<T>* dq, Math<T>* dkv,
                             const AttentionDropout& dropout);
/// dqkv (N, (H + 2·KV)·D) from the sums of all steps.
template <class T>
void ring_attention_gradient(const RingStep& step, const Math<T>* dq, const Math<T>* dkv, Rotation<Math<T>> rotation,
                             T* dqkv);

}  // namespace lockstep
