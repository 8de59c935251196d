// Scratch memory of attention kernels (tensor/kernels/attention_tiles.hpp), as a function of the call and of the
// threads that run it. Pure.
#pragma once

#include "architecture/attention_shape.hpp"

#include <algorithm>
#include <cstdint>

namespace lockstep {

constexpr std::int64_t vector_keys = 16;  // scores of a row are padded to whole vectors
constexpr std::int64_t tile_rows = 64;    // queries whose scores against all earlier keys are held at once

constexpr std::int64_t stride_of(std::int64_t width) { return (width + vector_keys - 1) / vector_keys * vector_keys; }
/// Whether vectors hold whole heads; only then a factor is transposed.
constexpr bool fills_vectors(std::int64_t head_size) { return head_size % vector_keys == 0; }

/// Elements of a transposed factor (length, D) of a head, and its alignment in bytes.
constexpr std::int64_t turned_elements(std::int64_t length, std::int64_t head_size) {
  return stride_of(length) * head_size;
}
constexpr std::int64_t turned_alignment = 64;
/// Bytes of memory for a transposed factor of numbers of `number_bytes`; 0: it is not transposed.
constexpr std::int64_t turned_bytes(std::int64_t length, std::int64_t head_size, std::int64_t number_bytes) {
  if (number_bytes != sizeof(float) || !fills_vectors(head_size)) return 0;
  return turned_elements(length, head_size) * number_bytes + turned_alignment;
}

/// Bytes over all threads while the kernels run.
struct AttentionScratch {
  std::int64_t forward = 0, backward = 0;
};

/// The scratch memory for `segments` segments of at most `length` tokens, with numbers of `number_bytes` (4 or 8), on a
/// processor with AVX-512. Each of at most `threads` threads computes one key head of a segment at a time; 0: the
/// kernels have no scratch memory.
constexpr AttentionScratch attention_scratch(const AttentionShape& shape, std::int64_t length, std::int64_t segments,
                                             std::int64_t number_bytes, std::int64_t threads) {
  const std::int64_t at_once = std::min(threads, segments * shape.kv_heads), size = shape.head_size;
  // keys and values, a tile of queries and its output, its scores and their sums
  const std::int64_t tile = number_bytes * (2 * (length + tile_rows) * size + tile_rows * (stride_of(length) + 1));
  const std::int64_t turned = 2 * turned_bytes(length, size, number_bytes);
  return {at_once * (tile + turned), at_once * (2 * tile + turned)};
}

}  // namespace lockstep
