// Causal attention over the segments of a packed batch, with grouped-query heads, rotary positions and an optional
// sliding window: plain forward and backward. A row attends to itself and to earlier rows of its segment. Segments do
// not attend to each other, so there is no mask tensor.
#pragma once

#include "architecture/attention_shape.hpp"
#include "tensor/kernels/dropout_kernel.hpp"
#include "tensor/kernels/number.hpp"

namespace lockstep {

/// cos and sin of position · frequency, times a factor: (positions, D/2) each. Elements i and i + D/2 of a head form a
/// pair. nullptr: no rotation.
template <class M>
struct Rotation {
  const M* cosine = nullptr;
  const M* sine = nullptr;
};

/// Segment s has the tokens [starts[s], starts[s + 1]).
struct Segments {
  const std::int64_t* starts;
  std::int64_t count;
  // N, and the length of the longest segment or more; 0: unknown. The CPU's kernels do not need them; `starts` of a
  // device cannot be read by the host
  std::int64_t tokens = 0, longest = 0;
};

/// y (N, H·D) for qkv (N, (H + 2·KV)·D): queries of all heads, then keys, then values. Stores the logarithms of the
/// softmax sums in log_sums (N, H) and applies `dropout` to the probabilities. `positions` (N) is read only with a
/// rotation.
template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout = {});

/// y is that of the forward, or null where it is not known: the CPU's kernels do not read it, and others then compute
/// it again.
template <class T>
void attention_backward(const T* dy, const T* qkv, const T* y, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout = {});

}  // namespace lockstep
