// Tiles of rows of a head in shared memory, and products of two tiles by a block of 16 × 16 threads. A thread has R
// rows and as many keys, or C columns of a head, 16 apart. So a tile has 16·R rows, and a head 16·C columns at most.
#pragma once

#include "cuda/kernels/numbers.cuh"
#include "tensor/kernels/attention_kernel.hpp"

#include <cstdint>

namespace lockstep::cuda {

constexpr int tile_side = 16;  // threads along either side of a tile
constexpr int tile_threads = tile_side * tile_side;

__device__ inline int tile_row() { return static_cast<int>(threadIdx.x) / tile_side; }
__device__ inline int tile_column() { return static_cast<int>(threadIdx.x) % tile_side; }

/// Values between rows of a tile in shared memory: whole packs, and one more, so that rows begin in other banks.
template <class M>
__host__ __device__ constexpr int tile_stride(int columns) {
  constexpr int pack = lanes_of_access<M>;
  return (columns + pack - 1) / pack * pack + pack;
}

/// The type in which rows are stored.
enum class StoredAs { math, bf16, fp16 };
template <class T>
constexpr StoredAs stored_as = std::is_same_v<T, Bf16>   ? StoredAs::bf16
                               : std::is_same_v<T, Fp16> ? StoredAs::fp16
                                                         : StoredAs::math;

/// Values of M that are stored in any of its storage types. One kernel serves all of them.
template <class M>
struct StoredValues {
  const void* values;
  StoredAs as;

  __device__ M operator[](std::int64_t i) const {
    if constexpr (std::is_same_v<M, float>) {
      if (as == StoredAs::bf16) return widened(static_cast<const Bf16*>(values)[i]);
      if (as == StoredAs::fp16) return widened(static_cast<const Fp16*>(values)[i]);
    }
    return static_cast<const M*>(values)[i];
  }
  __device__ void set(std::int64_t i, M value) const {
    void* const target = const_cast<void*>(values);
    if constexpr (std::is_same_v<M, float>) {
      if (as == StoredAs::bf16) return narrow(value, static_cast<Bf16*>(target)[i]);
      if (as == StoredAs::fp16) return narrow(value, static_cast<Fp16*>(target)[i]);
    }
    static_cast<M*>(target)[i] = value;
  }
};

/// Rows of one head in global memory.
template <class M>
struct HeadRows {
  StoredValues<M> in;
  std::int64_t first;   // index of the first value of the first row
  std::int64_t stride;  // between rows
  int count, columns;
  Rotation<M> rotation;           // nullptr: none
  const std::int32_t* positions;  // of these rows
  M scale;
};

/// Loads a tile, rotated and scaled; zeros follow the last row and column.
template <int R, class M>
__device__ void load_tile(const HeadRows<M>& rows, M* tile) {
  const int stride = tile_stride<M>(rows.columns), half = rows.columns / 2;
  for (int r = tile_row(); r < tile_side * R; r += tile_side) {
    const std::int64_t at = rows.first + r * rows.stride;
    for (int c = tile_column(); c < stride; c += tile_side) {
      M value = 0;
      if (r < rows.count && c < rows.columns) {
        value = rows.in[at + c];
        if (rows.rotation.cosine) {
          const bool is_first = c < half;
          const std::int64_t angle = std::int64_t{rows.positions[r]} * half + (is_first ? c : c - half);
          const M other = rows.in[is_first ? at + c + half : at + c - half], sine = rows.rotation.sine[angle];
          value = value * rows.rotation.cosine[angle] + (is_first ? -other : other) * sine;
        }
        value *= rows.scale;
      }
      tile[r * stride + c] = value;
    }
  }
}

/// Stores a tile, as the gradient of rows that were loaded so: rotated back and scaled.
template <int R, class M>
__device__ void store_tile(const M* tile, const HeadRows<M>& rows) {
  const int stride = tile_stride<M>(rows.columns), half = rows.columns / 2;
  for (int r = tile_row(); r < rows.count; r += tile_side) {
    for (int c = tile_column(); c < rows.columns; c += tile_side) {
      M value = tile[r * stride + c];
      if (rows.rotation.cosine) {
        const bool is_first = c < half;
        const std::int64_t angle = std::int64_t{rows.positions[r]} * half + (is_first ? c : c - half);
        const M other = tile[r * stride + (is_first ? c + half : c - half)], sine = rows.rotation.sine[angle];
        value = value * rows.rotation.cosine[angle] + (is_first ? other : -other) * sine;
      }
      rows.in.set(rows.first + r * rows.stride + c, value * rows.scale);
    }
  }
}

/// scores = a · bᵀ of two tiles with these columns.
template <int R, class M>
__device__ void score_tiles(const M* a, const M* b, int columns, M (&scores)[R][R]) {
  constexpr int pack = lanes_of_access<M>;
  const int stride = tile_stride<M>(columns);
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < R; ++j) scores[i][j] = 0;
  }
  for (int c = 0; c < columns; c += pack) {  // beyond the last column are zeros
    M left[R][pack], right[R][pack];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      load_values<pack>(a + (tile_row() + tile_side * i) * stride + c, pack, true, left[i]);
      load_values<pack>(b + (tile_column() + tile_side * i) * stride + c, pack, true, right[i]);
    }
#pragma unroll
    for (int i = 0; i < R; ++i) {
#pragma unroll
      for (int j = 0; j < R; ++j) {
#pragma unroll
        for (int k = 0; k < pack; ++k) scores[i][j] += left[i][k] * right[j][k];
      }
    }
  }
}

/// Writes the scores of all threads to a tile with 16·R columns.
template <int R, class M>
__device__ void share_scores(const M (&scores)[R][R], M* tile) {
  constexpr int stride = tile_stride<M>(tile_side * R);
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < R; ++j)
      tile[(tile_row() + tile_side * i) * stride + tile_column() + tile_side * j] = scores[i][j];
  }
}

/// sums += scores · b, for scores (16·R, 16·R) and a tile b, or their transpose.
template <bool transposed, int R, int C, class M>
__device__ void combine_tiles(const M* scores, const M* b, int columns, M (&sums)[R][C]) {
  constexpr int side = tile_side * R, score_stride = tile_stride<M>(side);
  const int stride = tile_stride<M>(columns);
#pragma unroll 4
  for (int k = 0; k < side; ++k) {
    M left[R];
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = tile_row() + tile_side * i;
      left[i] = scores[transposed ? k * score_stride + row : row * score_stride + k];
    }
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int column = tile_column() + tile_side * j;
      if (column >= columns) continue;
      const M right = b[k * stride + column];
#pragma unroll
      for (int i = 0; i < R; ++i) sums[i][j] += left[i] * right;
    }
  }
}

/// Writes the sums of all threads to a tile.
template <int R, int C, class M>
__device__ void share_sums(const M (&sums)[R][C], int columns, M* tile) {
  const int stride = tile_stride<M>(columns);
#pragma unroll
  for (int i = 0; i < R; ++i) {
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int column = tile_column() + tile_side * j;
      if (column < columns) tile[(tile_row() + tile_side * i) * stride + column] = sums[i][j];
    }
  }
}

}  // namespace lockstep::cuda
