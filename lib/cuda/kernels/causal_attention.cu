#include "cuda/kernels/causal_attention.hpp"

#include "cuda/kernels/attention_walk.cuh"
#include "cuda/kernels/reductions.cuh"
#include "cuda/kernels/ring_steps.hpp"

#include <cmath>

namespace lockstep::cuda {

namespace {

/// Stored rows of heads.
template <class M>
struct HeadMatrix {
  StoredValues<M> in;
  std::int64_t width;             // of a row
  std::int64_t first;             // column of the first head
  const std::int32_t* positions;  // of all rows

  __device__ HeadRows<M> rows(const TileRows& tile, std::int64_t head, int size, Rotation<M> rotation, M scale) const {
    return {in,       tile.row * width + first + head * size,           width, tile.count, size,
            rotation, rotation.cosine ? positions + tile.row : nullptr, scale};
  }
};

/// The arguments of attention in one batch, or in one step of a ring.
template <class M>
struct AttentionCall {
  AttentionShape shape;
  RowParts query_parts, key_parts;
  const std::int64_t *query_tiles, *key_tiles;  // tiles before each part
  HeadMatrix<M> queries, keys, values;
  Rotation<M> rotation;
  DrawnDropout dropout;
  M scale;  // of queries

  __device__ int size() const { return static_cast<int>(shape.head_size); }
  __device__ HeadRows<M> query_rows(const TileRows& tile, std::int64_t head) const {
    return queries.rows(tile, head, size(), rotation, scale);
  }
  __device__ HeadRows<M> key_rows(const TileRows& tile, std::int64_t head) const {
    return keys.rows(tile, head, size(), rotation, 1);
  }
  __device__ HeadRows<M> value_rows(const TileRows& tile, std::int64_t head) const {
    return values.rows(tile, head, size(), {}, 1);
  }
  /// The first key that a tile of queries sees.
  __device__ std::int64_t first_key(const TilePlace& place) const {
    return shape.window == 0 ? 0 : place.index - shape.window + 1;
  }
};

/// Values of M in a tile of rows with these columns, and in one of scores.
template <class M, int R>
__host__ __device__ constexpr int row_tile_size(int columns) {
  return tile_side * R * tile_stride<M>(columns);
}
template <class M, int R>
__host__ __device__ constexpr int score_tile_size() {
  return tile_side * R * tile_stride<M>(tile_side * R);
}

/// The results of forward. A step of a ring adds to sums (H, N, D) of `rows` rows; else y is set.
template <class M>
struct AttentionResults {
  StoredValues<M> y;
  M* sums;
  std::int64_t rows;
  M* log_sums;
};

/// One value of earlier steps of a ring and of this one, as weights of their results.
template <class M>
struct RingWeights {
  M before, added, log_sum;

  __device__ RingWeights(M earlier, M own) {
    const M largest = own > earlier ? own : earlier;
    log_sum = largest + log(exp(earlier - largest) + exp(own - largest));
    before = exp(earlier - log_sum);
    added = exp(own - log_sum);
  }
};

template <class M, int R, int C>
__global__ void __launch_bounds__(tile_threads, 1)
    attend(AttentionCall<M> call, std::int64_t tiles, AttentionResults<M> results) {
  constexpr int side = tile_side * R;
  constexpr M nothing = -std::numeric_limits<M>::infinity();
  const std::int64_t heads = call.shape.heads, head = blockIdx.x % heads,
                     kv_head = head / (heads / call.shape.kv_heads);
  // Late tiles, which see most keys, first.
  const TilePlace place(call.query_parts, call.query_tiles, tiles - 1 - blockIdx.x / heads, side);
  if (place.count == 0) return;
  const int size = call.size();
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  M* const queries = shared;
  M* const keys = queries + row_tile_size<M, R>(size);  // then values
  M* const scores = keys + row_tile_size<M, R>(size);
  DropBits<R> bits{reinterpret_cast<unsigned char*>(scores + score_tile_size<M, R>()), 0};
  const TileRows own_rows{place.row, place.index, place.count};
  load_tile<R>(call.query_rows(own_rows, head), queries);
  M sums[R][C] = {}, largest[R], totals[R] = {};
#pragma unroll
  for (int i = 0; i < R; ++i) largest[i] = nothing;
  const auto visit = [&](const TileRows& seen) {
    const TilePair pair{own_rows, seen, call.shape.window};
    load_tile<R>(call.key_rows(seen, kv_head), keys);
    if (call.dropout.drops()) bits.draw(call.dropout, pair, head);
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
        own[i][j] = own[i][j] == nothing ? M{0} : exp(own[i][j] - most);
        total += own[i][j];
        if (call.dropout.drops())
          own[i][j] *= bits.template factor<M>(call.dropout, pair, row, tile_column() + tile_side * j);
      }
      totals[i] = totals[i] * change + warp_sum(total, tile_side);
#pragma unroll
      for (int j = 0; j < C; ++j) sums[i][j] *= change;
    }
    share_scores<R>(own, scores);
    __syncthreads();  // the keys are no longer read
    load_tile<R>(call.value_rows(seen, kv_head), keys);
    __syncthreads();
    combine_tiles<false, R, C>(scores, keys, size, sums);
    __syncthreads();
  };
  over_tiles(call.key_parts, place.segment, call.first_key(place), place.index + place.count, side, visit);
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const int row = tile_row() + tile_side * i;
    const std::int64_t token = place.row + row;
    M* const log_sum = results.log_sums + token * heads + head;
    const bool adds = results.sums != nullptr, sees = row < place.count && totals[i] != 0;  // a key of this step
    const M earlier = adds && sees ? *log_sum : nothing, own = largest[i] + log(totals[i]);
    __syncwarp();  // all threads of the row have read the old sum
    if (!sees) continue;
    const RingWeights<M> weights(earlier, own);
    if (tile_column() == 0) *log_sum = adds ? weights.log_sum : own;
#pragma unroll
    for (int j = 0; j < C; ++j) {
      const int column = tile_column() + tile_side * j;
      if (column >= size) continue;
      const M result = sums[i][j] / totals[i];
      if (adds) {
        M& target = results.sums[(head * results.rows + token) * size + column];
        target = weights.before * target + weights.added * result;
      } else {
        results.y.set((token * heads + head) * size + column, result);
      }
    }
  }
}

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

/// Calls body with the rows and columns of a thread for heads of this size, as in cuda/kernels/head_tiles.cuh.
template <int small, int middle, int large, class Body>
void with_tile_size(std::int64_t head_size, const Body& body) {
  if (head_size <= 64) return body(std::integral_constant<int, small>{}, std::integral_constant<int, 4>{});
  if (head_size <= 128) return body(std::integral_constant<int, middle>{}, std::integral_constant<int, 8>{});
  constexpr int invalid_value = 1;  // cudaErrorInvalidValue
  if (head_size > 256) check_launch(invalid_value);
  body(std::integral_constant<int, large>{}, std::integral_constant<int, 16>{});
}

/// A batch or a step of a ring, as the host knows it.
template <class T>
struct Attended {
  using M = Math<T>;
  AttentionCall<M> call;
  std::int64_t rows;  // N

  static Attended of_batch(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<M> rotation,
                           const std::int32_t* positions, const AttentionDropout& dropout) {
    const RowParts parts{segments.starts, nullptr, segments.count, 1};
    const std::int64_t size = shape.head_size, width = shape.width();
    const auto matrix = [&](std::int64_t head) {
      return HeadMatrix<M>{{qkv, stored_as<T>}, width, head * size, positions};
    };
    return {base(shape, parts, parts, matrix(0), matrix(shape.heads), matrix(shape.heads + shape.kv_heads), rotation,
                 dropout),
            segments.tokens};
  }
  static Attended of_step(const RingStep& step, const T* qkv, const T* kv, Rotation<M> rotation,
                          const AttentionDropout& dropout) {
    const AttentionShape& shape = step.shape;
    const std::int64_t count = 2 * step.segments, around = 2 * shape.kv_heads * shape.head_size;
    const HeadMatrix<M> queries{{qkv, stored_as<T>}, shape.width(), 0, step.own.positions};
    const auto matrix = [&](std::int64_t head) {
      return HeadMatrix<M>{{kv, stored_as<T>}, around, head * shape.head_size, step.theirs.positions};
    };
    return {base(shape, {nullptr, step.own.parts, count, 2}, {nullptr, step.theirs.parts, count, 2}, queries, matrix(0),
                 matrix(shape.kv_heads), rotation, dropout),
            step.rows};
  }
  static AttentionCall<M> base(const AttentionShape& shape, const RowParts& query_parts, const RowParts& key_parts,
                               const HeadMatrix<M>& queries, const HeadMatrix<M>& keys, const HeadMatrix<M>& values,
                               Rotation<M> rotation, const AttentionDropout& dropout) {
    return {shape,
            query_parts,
            key_parts,
            nullptr,
            nullptr,
            queries,
            keys,
            values,
            rotation,
            {drawn_mask(dropout.mask), dropout.places, dropout.first_head},
            static_cast<M>(1 / std::sqrt(static_cast<double>(shape.head_size)))};
  }

  /// Counts the tiles of `side` rows, and takes `more` bytes beside their numbers. Returns the most that there can be.
  std::int64_t count(int side, std::int64_t more, void** beside) {
    const std::int64_t entries = call.query_parts.count + 1;
    auto* const tiles = static_cast<std::int64_t*>(kernel_scratch(static_cast<std::size_t>(2 * entries * 8 + more)));
    call.query_tiles = tiles;
    call.key_tiles = tiles + entries;
    if (beside != nullptr) *beside = tiles + 2 * entries;
    launch(count_tiles, 1, 256, 0, call.query_parts, side, tiles);
    launch(count_tiles, 1, 256, 0, call.key_parts, side, tiles + entries);
    return rows / side + call.query_parts.count;
  }
  template <int R>
  std::size_t shared_bytes(int row_tiles) const {
    const auto size = static_cast<int>(call.shape.head_size);
    const int values = row_tiles * row_tile_size<M, R>(size) + score_tile_size<M, R>();
    return static_cast<std::size_t>(values) * sizeof(M) + (call.dropout.mask.threshold != 0 ? DropBits<R>::bytes : 0);
  }

  void forward(const AttentionResults<M>& results) {
    if (call.query_parts.count == 0) return;
    constexpr int most = sizeof(M) == 4 ? 4 : 2;  // rows of a thread: shared memory limits them
    with_tile_size<most, most, most / 2>(call.shape.head_size, [&](auto rows_of_thread, auto columns) {
      constexpr int R = decltype(rows_of_thread)::value, C = decltype(columns)::value;
      const std::int64_t tiles = count(tile_side * R, 0, nullptr);
      launch(attend<M, R, C>, tiles * call.shape.heads, tile_threads, shared_bytes<R>(2), call, tiles, results);
    });
  }
  void backward(AttentionGradients<M> gradients) {
    if (call.query_parts.count == 0) return;
    constexpr int most = sizeof(M) == 4 ? 4 : 2;
    with_tile_size<most, most / 2, 1>(call.shape.head_size, [&](auto rows_of_thread, auto columns) {
      constexpr int R = decltype(rows_of_thread)::value, C = decltype(columns)::value;
      const bool is_ring = gradients.query_sums != nullptr;
      const std::int64_t more = is_ring ? 0 : rows * call.shape.heads * static_cast<std::int64_t>(sizeof(M));
      void* products = nullptr;
      const std::int64_t tiles = count(tile_side * R, more, &products);
      if (!is_ring) gradients.products = static_cast<M*>(products);
      const std::size_t bytes = shared_bytes<R>(4);
      launch(attend_backward_queries<M, R, C>, tiles * call.shape.heads, tile_threads, bytes, call, gradients, tiles);
      launch(attend_backward_keys<M, R, C>, tiles * call.shape.kv_heads, tile_threads, bytes, call, gradients);
    });
  }
};

}  // namespace

template <class T>
void attention_forward(const T* qkv, const AttentionShape& shape, Segments segments, Rotation<Math<T>> rotation,
                       const std::int32_t* positions, T* y, Math<T>* log_sums, const AttentionDropout& dropout) {
  Attended<T>::of_batch(qkv, shape, segments, rotation, positions, dropout)
      .forward({{y, stored_as<T>}, nullptr, 0, log_sums});
}

template <class T>
void attention_backward(const T* dy, const T* qkv, const Math<T>* log_sums, const AttentionShape& shape,
                        Segments segments, Rotation<Math<T>> rotation, const std::int32_t* positions, T* dqkv,
                        const AttentionDropout& dropout) {
  Attended<T>::of_batch(qkv, shape, segments, rotation, positions, dropout)
      .backward({{dy, stored_as<T>}, {dqkv, stored_as<T>}, log_sums, nullptr, nullptr, nullptr, 0});
}

template <class T>
void ring_attention_forward(const RingStep& step, const T* qkv, const T* kv, Rotation<Math<T>> rotation, Math<T>* y,
                            Math<T>* log_sums, const AttentionDropout& dropout) {
  Attended<T>::of_step(step, qkv, kv, rotation, dropout).forward({{nullptr, stored_as<T>}, y, step.rows, log_sums});
}

template <class T>
void ring_attention_backward(const RingStep& step, const T* dy, const T* qkv, const T* kv, Rotation<Math<T>> rotation,
                             const Math<T>* log_sums, const Math<T>* products, Math<T>* dq, Math<T>* dkv,
                             const AttentionDropout& dropout) {
  Attended<T>::of_step(step, qkv, kv, rotation, dropout)
      .backward(
          {{dy, stored_as<T>}, {nullptr, stored_as<T>}, log_sums, const_cast<Math<T>*>(products), dq, dkv, step.rows});
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void attention_forward<T>(const T*, const AttentionShape&, Segments, Rotation<Math<T>>,                    \
                                     const std::int32_t*, T*, Math<T>*, const AttentionDropout&);                     \
  template void attention_backward<T>(const T*, const T*, const Math<T>*, const AttentionShape&, Segments,            \
                                      Rotation<Math<T>>, const std::int32_t*, T*, const AttentionDropout&);           \
  template void ring_attention_forward<T>(const RingStep&, const T*, const T*, Rotation<Math<T>>, Math<T>*, Math<T>*, \
                                          const AttentionDropout&);                                                   \
  template void ring_attention_backward<T>(const RingStep&, const T*, const T*, const T*, Rotation<Math<T>>,          \
                                           const Math<T>*, const Math<T>*, Math<T>*, Math<T>*,                        \
                                           const AttentionDropout&);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
