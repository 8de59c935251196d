// Scratch memory of attention kernels (tensor/kernels/attention_tiles.hpp), as a function of the call and of the
// threads that run it. Pure.
#pragma once

#include "architecture/attention_shape.hpp"

#include <algorithm>
#include <cstdint>

namespace lockstep {

constexpr std::int64_t vector_keys = 16;  // scores of a row are padded to whole vectors
constexpr std::int64_t tile_rows = 64;    // queries whose scores against all earlier keys are held at once

// Attention over a cache (tensor/kernels/cached_attention_kernel.hpp):
constexpr std::int64_t few_rows = 7;           // up to as many new rows of a text read the cache without packing it
constexpr std::int64_t chunk_positions = 256;  // of the cache, which a task reads for few rows
constexpr std::int64_t block_rows = 256;       // of many new rows, which a task computes in tiles

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

/// The scratch memory of attention over a cache of `positions` positions, for `texts` texts with at most `rows` rows
/// each: that of attention, of blocks of rows, or partial results of chunks of positions.
constexpr std::int64_t cached_attention_scratch(const AttentionShape& shape, std::int64_t positions, std::int64_t texts,
                                                std::int64_t rows, std::int64_t number_bytes, std::int64_t threads) {
  if (rows > few_rows) {
    const std::int64_t blocks = texts * ((rows + block_rows - 1) / block_rows);
    return attention_scratch(shape, positions, blocks, number_bytes, threads).forward;
  }
  const std::int64_t chunks = (positions + chunk_positions - 1) / chunk_positions;
  const std::int64_t results = texts * rows * shape.heads * chunks, group = shape.heads / shape.kv_heads;
  const std::int64_t at_once = std::min(threads, texts * chunks * shape.kv_heads);
  const std::int64_t of_thread = group * few_rows * (shape.head_size + stride_of(chunk_positions + few_rows));
  return number_bytes * (results * (shape.head_size + 2) + at_once * of_thread);
}

}  // namespace lockstep
