// Backward of attention in two kernels: a block has a tile of queries, or one of keys and values. So no two blocks add
// to one value.
#pragma once

#include "cuda/kernels/attention_call.cuh"
#include "cuda/kernels/reductions.cuh"

#include <cstdint>
#include <limits>

namespace lockstep::cuda {

/// Arguments of backward beside those of forward. A step of a ring adds to query_sums (H, N, D) and key_sums (2·KV, N,
/// D) of `rows` rows, of rotated heads, and has the products; else dqkv is set, and products are computed.
template <class M>
struct AttentionGradients {
  StoredValues<M> dy, dqkv;
  const M* log_sums;
  M* products;  // (N, H): Σ over keys of probability · its gradient
  M *query_sums, *key_sums;
  std::int64_t rows;

  /// Rows of dy of a head.
  __device__ HeadRows<M> dy_rows(const AttentionCall<M>& call, const TileRows& tile, std::int64_t head) const {
    return HeadMatrix<M>{dy, call.shape.heads * call.shape.head_size, 0, nullptr}.rows(tile, head, call.size(), {}, 1);
  }
};

/// Adds the sums of all threads to rows of a head of sums (heads, N, D) that begin at `target`.
template <int R, int C, class M>
__device__ void add_sums(const M (&sums)[R][C], int rows, int columns, M* target) {
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = tile_row() + tile_side * i;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int column = tile_column() + tile_side * j;
      if (row < rows && column < columns) target[row * columns + column] += sums[i][j];
    }
  }
}

/// Probabilities and their gradients in a pair of tiles, from scores and products dy · valueᵀ.
template <class M, int R>
struct PairGradients {
  M probabilities[R][R], slopes[R][R];

  __device__ PairGradients(const AttentionCall<M>& call, const AttentionGradients<M>& gradients, const TilePair& pair,
                           std::int64_t head, const DropBits<R>& bits, const M* queries, const M* keys, const M* dy,
                           const M* values) {
    score_tiles<R>(queries, keys, call.size(), probabilities);
    score_tiles<R>(dy, values, call.size(), slopes);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = tile_row() + tile_side * i;
      const std::int64_t token = pair.queries.row + row;
      const M log_sum = row < pair.queries.count ? gradients.log_sums[token * call.shape.heads + head] : M{0};
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int column = tile_column() + tile_side * j;
        if (!pair.sees(row, column)) {
          probabilities[i][j] = slopes[i][j] = 0;
          continue;
        }
        probabilities[i][j] = exp(probabilities[i][j] - log_sum);
        if (call.dropout.drops()) slopes[i][j] *= bits.template factor<M>(call.dropout, pair, row, column);
      }
    }
  }
};

/// Products of rows, unless a ring has them, and gradients of queries.
template <class M, int R, int C>
__global__ void __launch_bounds__(tile_threads, 1)
    attend_backward_queries(AttentionCall<M> call, AttentionGradients<M> gradients, std::int64_t tiles) {
  constexpr int side = tile_side * R;
  const std::int64_t heads = call.shape.heads, head = blockIdx.x % heads,
                     kv_head = head / (heads / call.shape.kv_heads);
  const TilePlace place(call.query_parts, call.query_tiles, tiles - 1 - blockIdx.x / heads, side);
  if (place.count == 0) return;
  const int size = call.size(), tile = row_tile_size<M, R>(size);
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M *const queries = shared, *const dy = queries + tile, *const keys = dy + tile, *const values = keys + tile;
  M* const scores = values + tile;
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  const TileRows own_rows{place.row, place.index, place.count};
  load_tile<R>(call.query_rows(own_rows, head), queries);
  load_tile<R>(gradients.dy_rows(call, own_rows, head), dy);
  M sums[R][C] = {}, products[R];
  const bool is_ring = gradients.query_sums != nullptr;
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = tile_row() + tile_side * i;
    products[i] = is_ring && row < place.count ? gradients.products[(place.row + row) * heads + head] : M{0};
  }
  for (int pass = is_ring ? 1 : 0; pass < 2; ++pass) {
    const bool has_products = pass == 1;
    const auto visit = [&](const TileRows& seen) {
      const TilePair pair{own_rows, seen, call.shape.window};
      load_tile<R>(call.key_rows(seen, kv_head), keys);
      load_tile<R>(call.value_rows(seen, kv_head), values);
      if (call.dropout.drops()) bits.draw(call.dropout, pair, head);
      __syncthreads();
      PairGradients<M, R> own(call, gradients, pair, head, bits, queries, keys, dy, values);
#pragma unroll
      for (int i = 0; i < R; ++i) {
#pragma unroll
        for (int j = 0; j < R; ++j) {
          if (has_products)
            own.slopes[i][j] = own.probabilities[i][j] * (own.slopes[i][j] - products[i]);
          else
            products[i] += own.probabilities[i][j] * own.slopes[i][j];
        }
      }
      if (has_products) {
        share_scores<R>(own.slopes, scores);
        __syncthreads();
        combine_tiles<false, R, C>(scores, keys, size, sums);
      }
      __syncthreads();
    };
    over_tiles(call.key_parts, place.segment, call.first_key(place), place.index + place.count, side, visit);
    if (has_products) continue;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      products[i] = warp_sum(products[i], tile_side);
      const int row = tile_row() + tile_side * i;
      if (row < place.count && tile_column() == 0) gradients.products[(place.row + row) * heads + head] = products[i];
    }
  }
  if (is_ring) {
    add_sums(sums, place.count, size, gradients.query_sums + (head * gradients.rows + place.row) * size);
    return;
  }
  share_sums<R, C>(sums, size, queries);
  __syncthreads();
  HeadRows<M> target = call.query_rows(own_rows, head);
  target.in = gradients.dqkv;
  store_tile<R>(queries, target);
}

/// Gradients of keys and values of a key head, over the queries of all its heads.
template <class M, int R, int C>
__global__ void __launch_bounds__(tile_threads, 1)
    attend_backward_keys(AttentionCall<M> call, AttentionGradients<M> gradients) {
  constexpr int side = tile_side * R;
  const std::int64_t kv_heads = call.shape.kv_heads, kv_head = blockIdx.x % kv_heads;
  const std::int64_t group = call.shape.heads / kv_heads;
  // Early keys, which most queries see, first.
  const TilePlace place(call.key_parts, call.key_tiles, blockIdx.x / kv_heads, side);
  if (place.count == 0) return;
  const int size = call.size(), tile = row_tile_size<M, R>(size);
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M *const queries = shared, *const dy = queries + tile, *const keys = dy + tile, *const values = keys + tile;
  M* const scores = values + tile;
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  const TileRows own_rows{place.row, place.index, place.count};
  load_tile<R>(call.key_rows(own_rows, kv_head), keys);
  load_tile<R>(call.value_rows(own_rows, kv_head), values);
  M key_sums[R][C] = {}, value_sums[R][C] = {};
  const std::int64_t last = place.index + place.count - 1;
  const std::int64_t end = call.shape.window == 0 ? std::numeric_limits<std::int64_t>::max() : last + call.shape.window;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const auto visit = [&](const TileRows& seeing) {
      const TilePair pair{seeing, own_rows, call.shape.window};
      load_tile<R>(call.query_rows(seeing, head), queries);
      load_tile<R>(gradients.dy_rows(call, seeing, head), dy);
      if (call.dropout.drops()) bits.draw(call.dropout, pair, head);
      __syncthreads();
      PairGradients<M, R> own(call, gradients, pair, head, bits, queries, keys, dy, values);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const int row = tile_row() + tile_side * i;
        const std::int64_t token = seeing.row + row;
        const M product = row < seeing.count ? gradients.products[token * call.shape.heads + head] : M{0};
#pragma unroll
        for (int j = 0; j < R; ++j) {
          own.slopes[i][j] = own.probabilities[i][j] * (own.slopes[i][j] - product);
          if (call.dropout.drops())
            own.probabilities[i][j] *= bits.template factor<M>(call.dropout, pair, row, tile_column() + tile_side * j);
        }
      }
      share_scores<R>(own.probabilities, scores);
      __syncthreads();
      combine_tiles<true, R, C>(scores, dy, size, value_sums);
      __syncthreads();
      share_scores<R>(own.slopes, scores);
      __syncthreads();
      combine_tiles<true, R, C>(scores, queries, size, key_sums);
      __syncthreads();
    };
    over_tiles(call.query_parts, place.segment, place.index, end, side, visit);
  }
  if (gradients.key_sums != nullptr) {
    M* const target = gradients.key_sums + (kv_head * gradients.rows + place.row) * size;
    add_sums(key_sums, place.count, size, target);
    add_sums(value_sums, place.count, size, target + kv_heads * gradients.rows * size);
    return;
  }
  share_sums<R, C>(key_sums, size, keys);
  share_sums<R, C>(value_sums, size, values);
  __syncthreads();
  HeadRows<M> target = call.key_rows(own_rows, kv_head);
  target.in = gradients.dqkv;
  store_tile<R>(keys, target);
  target = call.value_rows(own_rows, kv_head);
  target.in = gradients.dqkv;
  store_tile<R>(values, target);
}

}  // namespace lockstep::cuda
