#include "cuda/kernels/causal_attention.hpp"

#include "cuda/kernels/head_tiles.cuh"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/philox.cuh"
#include "cuda/kernels/reductions.cuh"

#include <algorithm>
#include <cmath>

// A block has a tile of queries of one segment, or in the second half of backward a tile of keys, and goes through the
// tiles that these see. Segments lie in device memory, so the host launches as many blocks as there could be tiles.

namespace lockstep::cuda {

namespace {

/// The arguments of all kernels of attention.
template <class M>
struct AttentionCall {
  StoredValues<M> qkv;
  AttentionShape shape;
  std::int64_t width;                         // of a row of qkv
  const std::int64_t *starts, *tiles_before;  // (segments + 1); tiles_before: of the segments before each
  std::int64_t segments;
  Rotation<M> rotation;
  const std::int32_t* positions;
  DrawnMask mask;
  const Place* places;
  std::int64_t first_head;
  M scale;  // of queries

  /// Rows [first, first + count) of the head that begins at `column` of qkv.
  __device__ HeadRows<M> rows(std::int64_t first, int count, std::int64_t column, bool rotated, M factor) const {
    return {qkv,
            first * width + column,
            width,
            count,
            static_cast<int>(shape.head_size),
            rotated ? rotation : Rotation<M>{},
            positions + (rotated && rotation.cosine ? first : 0),
            factor};
  }
  __device__ std::int64_t query_column(std::int64_t head) const { return head * shape.head_size; }
  __device__ std::int64_t key_column(std::int64_t head) const { return (shape.heads + head) * shape.head_size; }
  __device__ std::int64_t value_column(std::int64_t head) const {
    return (shape.heads + shape.kv_heads + head) * shape.head_size;
  }
};

/// A tile of rows within its segment, both as tokens of the batch.
struct TilePlace {
  std::int64_t first, segment_begin, segment_end;
  int count;  // 0: there is no such tile

  template <class M>
  __device__ TilePlace(const AttentionCall<M>& call, std::int64_t tile, int side) {
    count = 0;
    first = segment_begin = segment_end = 0;
    if (tile >= call.tiles_before[call.segments]) return;
    std::int64_t low = 0, high = call.segments - 1;  // the last segment with no more tiles before it
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (call.tiles_before[middle] <= tile)
        low = middle;
      else
        high = middle - 1;
    }
    segment_begin = call.starts[low];
    segment_end = call.starts[low + 1];
    first = segment_begin + (tile - call.tiles_before[low]) * side;
    count = rows_from(first, side);
  }
  __device__ int rows_from(std::int64_t row, int side) const {
    return static_cast<int>(std::min<std::int64_t>(side, segment_end - row));
  }
};

/// Queries and keys that meet in a pair of tiles.
struct TilePair {
  std::int64_t query, key;  // the first tokens
  int queries, keys;
  std::int64_t window;

  __device__ bool sees(int row, int column) const {
    const std::int64_t distance = query + row - (key + column);
    return row < queries && column < keys && distance >= 0 && (window == 0 || distance < window);
  }
};

/// The factors of dropout in a pair of tiles of one head, as bits in shared memory.
template <int R>
struct DropBits {
  static constexpr int side = tile_side * R, blocks = side / 8 + 1;
  static constexpr int bytes = side * blocks;
  unsigned char* bits;
  int offset;  // of the first key in the first block of 8

  /// Draws the bits. A barrier must follow.
  template <class M>
  __device__ void draw(const AttentionCall<M>& call, const TilePair& pair, std::int64_t segment_begin,
                       std::int64_t head) {
    const std::int64_t index = index_in_row(call.places[segment_begin]) + (pair.key - segment_begin);
    offset = static_cast<int>(index % 8);
    for (int i = static_cast<int>(threadIdx.x); i < bytes; i += tile_threads) {
      const int row = i / blocks, block = i % blocks;
      const Place place = row < pair.queries ? call.places[pair.query + row] : -1;
      const std::uint32_t kept = place < 0 ? 0xffu : call.mask.kept(place, call.first_head + head, index / 8 + block);
      bits[i] = static_cast<unsigned char>(kept);
    }
  }
  __device__ bool kept(int row, int column) const {
    const int at = offset + column;
    return (bits[row * blocks + at / 8] >> (at % 8) & 1) != 0;
  }
};

/// What a probability is multiplied with.
template <int R, class M>
__device__ M drop_factor(const AttentionCall<M>& call, const DropBits<R>& bits, const TilePair& pair, int row,
                         int column) {
  if (row >= pair.queries || call.places[pair.query + row] < 0) return 1;
  return bits.kept(row, column) ? static_cast<M>(call.mask.scale) : M{0};
}

/// The first key that a tile of queries sees.
__device__ inline std::int64_t first_key(const TilePlace& place, std::int64_t window) {
  if (window == 0) return place.segment_begin;
  return std::max(place.segment_begin, place.first - window + 1);
}

/// tiles_before (count + 1) = the tiles of earlier segments. One block.
__global__ void __launch_bounds__(256)
    count_tiles(const std::int64_t* starts, std::int64_t count, int side, std::int64_t* tiles_before) {
  LOCKSTEP_SHARED(std::int64_t, of_threads, 256);
  const std::int64_t each = (count + 255) / 256, first = threadIdx.x * each, last = std::min(count, first + each);
  std::int64_t tiles = 0;
  for (std::int64_t s = first; s < last; ++s) tiles += (starts[s + 1] - starts[s] + side - 1) / side;
  of_threads[threadIdx.x] = tiles;
  __syncthreads();
  std::int64_t before = 0;
  for (unsigned t = 0; t < threadIdx.x; ++t) before += of_threads[t];
  for (std::int64_t s = first; s < last; ++s) {
    tiles_before[s] = before;
    before += (starts[s + 1] - starts[s] + side - 1) / side;
  }
  if (threadIdx.x == 255) tiles_before[count] = before;
}

/// Values of M in a tile of rows with these columns, and in one of scores.
template <class M, int R>
__host__ __device__ constexpr int row_tile_size(int columns) {
  return tile_side * R * tile_stride<M>(columns);
}
template <class M, int R>
__host__ __device__ constexpr int score_tile_size() {
  return tile_side * R * tile_stride<M>(tile_side * R);
}

template <class M, int R, int C>
__global__ void __launch_bounds__(tile_threads, 1)
    attend(AttentionCall<M> call, std::int64_t tiles, StoredValues<M> y, M* log_sums) {
  constexpr int side = tile_side * R;
  constexpr M nothing = -std::numeric_limits<M>::infinity();
  const std::int64_t heads = call.shape.heads, head = blockIdx.x % heads,
                     kv_head = head / (heads / call.shape.kv_heads);
  const TilePlace place(call, tiles - 1 - blockIdx.x / heads, side);  // late tiles, which see most keys, first
  if (place.count == 0) return;
  const int size = static_cast<int>(call.shape.head_size);
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M* const queries = shared;
  M* const keys = queries + row_tile_size<M, R>(size);  // then values
  M* const scores = keys + row_tile_size<M, R>(size);
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  load_tile<R>(call.rows(place.first, place.count, call.query_column(head), true, call.scale), queries);
  M sums[R][C] = {}, largest[R], totals[R] = {};
#pragma unroll
  for (int i = 0; i < R; ++i) largest[i] = nothing;
  const std::int64_t end = place.first + place.count;
  for (std::int64_t key = first_key(place, call.shape.window); key < end; key += side) {
    const TilePair pair{place.first, key, place.count, static_cast<int>(std::min<std::int64_t>(side, end - key)),
                        call.shape.window};
    load_tile<R>(call.rows(key, pair.keys, call.key_column(kv_head), true, 1), keys);
    if (call.mask.threshold != 0) bits.draw(call, pair, place.segment_begin, head);
    __syncthreads();
    M own[R][R];
    score_tiles<R>(queries, keys, size, own);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = tile_row() + tile_side * i;
      M most = largest[i];
#pragma unroll
      for (int j = 0; j < R; ++j) {
        if (!pair.sees(row, tile_column() + tile_side * j)) own[i][j] = nothing;
        most = own[i][j] > most ? own[i][j] : most;
      }
      most = warp_max(most, tile_side);
      const M change = largest[i] == most ? M{1} : exp(largest[i] - most);
      largest[i] = most;
      M total = 0;
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int column = tile_column() + tile_side * j;
        own[i][j] = pair.sees(row, column) && own[i][j] != nothing ? exp(own[i][j] - most) : M{0};
        total += own[i][j];
        if (call.mask.threshold != 0) own[i][j] *= drop_factor(call, bits, pair, row, column);
      }
      totals[i] = totals[i] * change + warp_sum(total, tile_side);
#pragma unroll
      for (int j = 0; j < C; ++j) sums[i][j] *= change;
    }
    share_scores<R>(own, scores);
    __syncthreads();  // the keys are no longer read
    load_tile<R>(call.rows(key, pair.keys, call.value_column(kv_head), false, 1), keys);
    __syncthreads();
    combine_tiles<false, R, C>(scores, keys, size, sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = tile_row() + tile_side * i;
    if (row >= place.count) continue;
    const std::int64_t token = place.first + row;
    if (tile_column() == 0) log_sums[token * heads + head] = largest[i] + log(totals[i]);
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int column = tile_column() + tile_side * j;
      if (column < size) y.set((token * heads + head) * size + column, sums[i][j] / totals[i]);
    }
  }
}

/// Arguments of backward beside those of forward.
template <class M>
struct AttentionGradients {
  StoredValues<M> dy, dqkv;
  const M* log_sums;
  M* products;  // (N, H): Σ over keys of probability · its gradient

  /// Rows of dy of a head.
  __device__ HeadRows<M> rows(const AttentionCall<M>& call, std::int64_t first, int count, std::int64_t head) const {
    const std::int64_t width = call.shape.heads * call.shape.head_size;
    return {dy,
            first * width + head * call.shape.head_size,
            width,
            count,
            static_cast<int>(call.shape.head_size),
            {},
            nullptr,
            1};
  }
};

/// Probabilities and their gradients in a pair of tiles, from scores and products dy · valueᵀ.
template <class M, int R>
struct PairGradients {
  M probabilities[R][R], slopes[R][R];

  __device__ PairGradients(const AttentionCall<M>& call, const AttentionGradients<M>& gradients, const TilePair& pair,
                           std::int64_t head, const DropBits<R>& bits, const M* queries, const M* keys, const M* dy,
                           const M* values) {
    const int size = static_cast<int>(call.shape.head_size);
    score_tiles<R>(queries, keys, size, probabilities);
    score_tiles<R>(dy, values, size, slopes);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int row = tile_row() + tile_side * i;
      const M log_sum = row < pair.queries ? gradients.log_sums[(pair.query + row) * call.shape.heads + head] : M{0};
#pragma unroll
      for (int j = 0; j < R; ++j) {
        const int column = tile_column() + tile_side * j;
        if (!pair.sees(row, column)) {
          probabilities[i][j] = slopes[i][j] = 0;
          continue;
        }
        probabilities[i][j] = exp(probabilities[i][j] - log_sum);
        if (call.mask.threshold != 0) slopes[i][j] *= drop_factor(call, bits, pair, row, column);
      }
    }
  }
};

/// Products of rows, and gradients of queries.
template <class M, int R, int C>
__global__ void __launch_bounds__(tile_threads, 1)
    attend_backward_queries(AttentionCall<M> call, AttentionGradients<M> gradients, std::int64_t tiles) {
  constexpr int side = tile_side * R;
  const std::int64_t heads = call.shape.heads, head = blockIdx.x % heads,
                     kv_head = head / (heads / call.shape.kv_heads);
  const TilePlace place(call, tiles - 1 - blockIdx.x / heads, side);
  if (place.count == 0) return;
  const int size = static_cast<int>(call.shape.head_size), tile = row_tile_size<M, R>(size);
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M *const queries = shared, *const dy = queries + tile, *const keys = dy + tile, *const values = keys + tile;
  M* const scores = values + tile;
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  const HeadRows<M> own_rows = call.rows(place.first, place.count, call.query_column(head), true, call.scale);
  load_tile<R>(own_rows, queries);
  load_tile<R>(gradients.rows(call, place.first, place.count, head), dy);
  M sums[R][C] = {}, products[R] = {};
  const std::int64_t end = place.first + place.count;
  for (int pass = 0; pass < 2; ++pass) {
    const bool has_products = pass == 1;
    for (std::int64_t key = first_key(place, call.shape.window); key < end; key += side) {
      const TilePair pair{place.first, key, place.count, static_cast<int>(std::min<std::int64_t>(side, end - key)),
                          call.shape.window};
      load_tile<R>(call.rows(key, pair.keys, call.key_column(kv_head), true, 1), keys);
      load_tile<R>(call.rows(key, pair.keys, call.value_column(kv_head), false, 1), values);
      if (call.mask.threshold != 0) bits.draw(call, pair, place.segment_begin, head);
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
    }
    if (has_products) continue;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      products[i] = warp_sum(products[i], tile_side);
      const int row = tile_row() + tile_side * i;
      if (row < place.count && tile_column() == 0) gradients.products[(place.first + row) * heads + head] = products[i];
    }
  }
  M ones[R];
#pragma unroll
  for (int i = 0; i < R; ++i) ones[i] = 1;
  share_sums<R, C>(sums, ones, size, queries);
  __syncthreads();
  HeadRows<M> target = own_rows;
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
  const TilePlace place(call, blockIdx.x / kv_heads, side);  // early keys, which most queries see, first
  if (place.count == 0) return;
  const int size = static_cast<int>(call.shape.head_size), tile = row_tile_size<M, R>(size);
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M *const queries = shared, *const dy = queries + tile, *const keys = dy + tile, *const values = keys + tile;
  M* const scores = values + tile;
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  const HeadRows<M> key_rows = call.rows(place.first, place.count, call.key_column(kv_head), true, 1);
  const HeadRows<M> value_rows = call.rows(place.first, place.count, call.value_column(kv_head), false, 1);
  load_tile<R>(key_rows, keys);
  load_tile<R>(value_rows, values);
  M key_sums[R][C] = {}, value_sums[R][C] = {};
  const std::int64_t last = place.first + place.count - 1, window = call.shape.window;
  const std::int64_t end = window == 0 ? place.segment_end : std::min(place.segment_end, last + window);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t query = place.first; query < end; query += side) {
      const TilePair pair{query, place.first, place.rows_from(query, side), place.count, window};
      load_tile<R>(call.rows(query, pair.queries, call.query_column(head), true, call.scale), queries);
      load_tile<R>(gradients.rows(call, query, pair.queries, head), dy);
      if (call.mask.threshold != 0) bits.draw(call, pair, place.segment_begin, head);
      __syncthreads();
      PairGradients<M, R> own(call, gradients, pair, head, bits, queries, keys, dy, values);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const int row = tile_row() + tile_side * i;
        const M product = row < pair.queries ? gradients.products[(query + row) * call.shape.heads + head] : M{0};
#pragma unroll
        for (int j = 0; j < R; ++j) {
          own.slopes[i][j] = own.probabilities[i][j] * (own.slopes[i][j] - product);
          if (call.mask.threshold != 0)
            own.probabilities[i][j] *= drop_factor(call, bits, pair, row, tile_column() + tile_side * j);
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
    }
  }
  M ones[R];
#pragma unroll
  for (int i = 0; i < R; ++i) ones[i] = 1;
  share_sums<R, C>(key_sums, ones, size, keys);
  share_sums<R, C>(value_sums, ones, size, values);
  __syncthreads();
  HeadRows<M> target = key_rows;
  target.in = gradients.dqkv;
  store_tile<R>(keys, target);
  target = value_rows;
  target.in = gradients.dqkv;
  store_tile<R>(values, target);
}

/// Calls body with the rows and columns of a thread for heads of this size, as in cuda/kernels/head_tiles.cuh.
template <int small, int middle, int large, class Body>
void with_tile_size(std::int64_t head_size, const Body& body) {
  if (head_size <= 64) return body(std::integral_constant<int, small>{}, std::integral_constant<int, 4>{});
  if (head_size <= 128) return body(std::integral_constant<int, middle>{}, std::integral_constant<int, 8>{});
  constexpr int invalid_value = 1;  // cudaErrorInvalidValue
  if (head_size > 256) check_launch(invalid_value);
  body(std::integral_constant<int, large>{}, std::integral_constant<int, 16>{});
}

template <class T>
AttentionCall<Math<T>> attention_call(const T* qkv, const AttentionShape& shape, Segments segments,
                                      Rotation<Math<T>> rotation, const std::int32_t* positions,
                                      const AttentionDropout& dropout, const std::int64_t* tiles_before) {
  return {{qkv, stored_as<T>},
          shape,
          shape.width(),
          segments.starts,
          tiles_before,
          segments.count,
          rotation,
          positions,
          drawn_mask(dropout.mask),
          dropout.places,
          dropout.first_head,
          static_cast<Math<T>>(1 / std::sqrt(static_cast<double>(shape.head_size)))};
}

/// The most tiles that the segments can have.
std::int64_t most_tiles(Segments segments, int side) { return segments.tokens / side + segments.count; }

template <class M, int R>
std::size_t shared_bytes(const AttentionShape& shape, const AttentionDropout& dropout, int row_tiles) {
  const auto size = static_cast<int>(shape.head_size);
  const int values = row_tiles * row_tile_size<M, R>(size) + score_tile_size<M, R>();
  return static_cast<std::size_t>(values) * sizeof(M) + (dropout.mask ? DropBits<R>::bytes : 0);
}

/// The memory of tiles_before, then that of `more` bytes.
struct AttentionScratch {
  AttentionScratch(Segments segments, std::int64_t more)
      : tiles_before(
            static_cast<std::int64_t*>(kernel_scratch(static_cast<std::size_t>((segments.count + 1) * 8 + more)))),
        rest(tiles_before + segments.count + 1) {}
  std::int64_t* tiles_before;
  void* rest;
};

}  // namespace

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  using M = Math<T>;
  if (segments.count == 0) return;
  constexpr int most = sizeof(M) == 4 ? 4 : 2;  // rows of a thread: shared memory limits them
  with_tile_size<most, most, most / 2>(shape.head_size, [&](auto rows, auto columns) {
    constexpr int R = decltype(rows)::value, C = decltype(columns)::value;
    const AttentionScratch scratch(segments, 0);
    const std::int64_t tiles = most_tiles(segments, tile_side * R);
    launch(count_tiles, 1, 256, 0, segments.starts, segments.count, tile_side * R, scratch.tiles_before);
    launch(attend<M, R, C>, tiles * shape.heads, tile_threads, shared_bytes<M, R>(shape, dropout, 2),
           attention_call<T>(qkv, shape, segments, rotation, positions, dropout, scratch.tiles_before), tiles,
           StoredValues<M>{y, stored_as<T>}, log_sums);
  });
}

template <class T>
void attention_backward(const T* dy, const T* qkv, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout) {
  using M = Math<T>;
  if (segments.count == 0) return;
  constexpr int most = sizeof(M) == 4 ? 4 : 2;
  with_tile_size<most, most / 2, 1>(shape.head_size, [&](auto rows, auto columns) {
    constexpr int R = decltype(rows)::value, C = decltype(columns)::value;
    const AttentionScratch scratch(segments, segments.tokens * shape.heads * static_cast<std::int64_t>(sizeof(M)));
    const std::int64_t tiles = most_tiles(segments, tile_side * R);
    const std::size_t bytes = shared_bytes<M, R>(shape, dropout, 4);
    const AttentionCall<M> call =
        attention_call<T>(qkv, shape, segments, rotation, positions, dropout, scratch.tiles_before);
    const AttentionGradients<M> gradients{
        {dy, stored_as<T>}, {dqkv, stored_as<T>}, log_sums, static_cast<M*>(scratch.rest)};
    launch(count_tiles, 1, 256, 0, segments.starts, segments.count, tile_side * R, scratch.tiles_before);
    launch(attend_backward_queries<M, R, C>, tiles * shape.heads, tile_threads, bytes, call, gradients, tiles);
    launch(attend_backward_keys<M, R, C>, tiles * shape.kv_heads, tile_threads, bytes, call, gradients);
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                            \
  template void attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,         \
                                     const std::int32_t*, T*, Math<T>*, const AttentionDropout&);          \
  template void attention_backward<T>(const T*, const T*, const Math<T>*, const AttentionShape&, Segments, \
                                      Rotation<Math<T>>, const std::int32_t*, T*, const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
