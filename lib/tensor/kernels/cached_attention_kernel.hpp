// Attention of new rows of texts over a cache of their keys and values (KV cache), for text generation. Without a
// cache: tensor/kernels/attention_kernel.hpp.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"

namespace lockstep {

/// New rows of several texts, and where the texts lie in a cache.
struct CachedTexts {
  // The new rows of text t are [starts[t], starts[t + 1]); a text may have none. Kernels of a device need rows.tokens.
  Segments rows;
  const std::int32_t* slots;      // (count): the place of each text in the cache; distinct
  const std::int32_t* positions;  // (N): of each row in its text; consecutive within a text
  std::int64_t capacity = 0;      // positions of a text that the cache holds: position p lies at p % capacity
};

/// Stores the keys and values of the rows of qkv (N, (H + 2·KV)·D) in cache (slots, 2·KV, capacity, D), which has for
/// each text the keys of all key heads, rotated if there is a rotation, then the values. Then y (N, H·D) = the
/// attention of each row to the positions of its text up to its own, the last `shape.window` of them (0: all). Earlier
/// positions must be in the cache. The capacity is at least the last position + 1; with a window, window + new rows of
/// the text − 1 suffices. The results of a text do not depend on other texts of the call.
template <class T>
void cached_attention(const T* qkv, const AttentionShape& shape, const CachedTexts& texts, Rotation<Math<T>> rotation,
                      T* cache, T* y);

}  // namespace lockstep
