// Shape of attention on one rank. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep {

struct AttentionShape {
  std::int64_t heads = 0;      // H
  std::int64_t kv_heads = 0;   // divides H; query head h reads key head h / (H / kv_heads)
  std::int64_t head_size = 0;  // D
  // Sliding window: the most keys that a query attends to, including its own; 0: no window.
  std::int64_t window = 0;
  std::int64_t width() const { return (heads + 2 * kv_heads) * head_size; }  // elements of one token of qkv
};

/// The heads of one rank when `ranks` ranks share the heads of `all`. If there are fewer key heads than ranks,
/// neighbours hold the same key head.
inline AttentionShape share_of(const AttentionShape& all, std::int64_t ranks) {
  return {all.heads / ranks, std::max<std::int64_t>(1, all.kv_heads / ranks), all.head_size, all.window};
}

}  // namespace lockstep
