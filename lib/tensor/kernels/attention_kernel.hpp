// Causal attention over segments of a packed batch, with grouped-query heads and rotary positions: plain forward and
// backward. Rows of a segment see themselves and the rows before them in it, or the last of these within a window;
// segments do not see each other, so no mask exists.
#pragma once

#include "tensor/kernels/dropout_kernel.hpp"
#include "tensor/kernels/number.hpp"

namespace lockstep {

struct AttentionShape {
  std::int64_t heads = 0;      // H
  std::int64_t kv_heads = 0;   // divides H; query head h reads key head h / (H / kv_heads)
  std::int64_t head_size = 0;  // D
  std::int64_t window = 0;  // keys that a query sees at most, the last ones, its own among them; 0: all up to its own
  std::int64_t width() const { return (heads + 2 * kv_heads) * head_size; }  // elements of one token of qkv
};

/// cos and sin of position · frequency, times a factor: (positions, D/2) each. Elements i and i + D/2 of a head turn
/// together. nullptr: no rotation.
template <class M>
struct Rotation {
  const M* cosine = nullptr;
  const M* sine = nullptr;
};

/// Segments [starts[s], starts[s + 1]) of the tokens.
struct Segments {
  const std::int64_t* starts;
  std::int64_t count;
};

/// y (N, H·D) for qkv (N, (H + 2·KV)·D): queries of all heads, then keys, then values. Keeps the logarithm of each
/// soft-max sum in log_sums (N, H), and drops what `dropout` says of the probabilities. `positions` (N) is read only
/// with a rotation.
template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout = {});

/// The scratch memory of one thread for segments of up to `length` tokens, with numbers of so many bytes (4 or 8) on a
/// processor with vectors.
std::int64_t attention_forward_scratch_bytes(std::int64_t length, std::int64_t head_size, std::int64_t number_bytes);
std::int64_t attention_backward_scratch_bytes(std::int64_t length, std::int64_t head_size, std::int64_t number_bytes);

template <class T>
void attention_backward(const T* dy, const T* qkv, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout = {});

}  // namespace lockstep
