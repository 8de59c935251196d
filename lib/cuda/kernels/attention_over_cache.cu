#include "cuda/kernels/attention_over_cache.hpp"

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/reductions.cuh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lockstep::cuda {

namespace {

constexpr int cache_threads = 256;
constexpr int chunk_keys = 512;  // whose scores a block holds at a time
constexpr int keys_at_once = 4;  // that a thread loads before it uses them

template <class T>
struct CachedCall {
  const T* qkv;
  AttentionShape shape;
  std::int64_t width;  // of a row of qkv
  CachedTexts texts;
  Rotation<Math<T>> rotation;
  T *cache, *y;
  Math<T> scale;  // of queries
  bool packed;    // whether packs of a cached row are aligned

  __device__ int size() const { return static_cast<int>(shape.head_size); }
  __device__ const T* head(std::int64_t row, std::int64_t of) const { return qkv + row * width + of * shape.head_size; }
  /// A head of a slot of the cache, (capacity, D). Value heads follow the key heads.
  __device__ T* cached_head(std::int64_t slot, std::int64_t of) const {
    return cache + (slot * 2 * shape.kv_heads + of) * texts.capacity * shape.head_size;
  }
};

/// The slot of a new row's text, and its position there.
struct CachedPlace {
  std::int64_t slot, position;
};

/// Called by all threads of a block.
__device__ CachedPlace place_of_row(const CachedTexts& texts, std::int64_t row) {
  LOCKSTEP_SHARED(std::int64_t, text, 1);
  for (std::int64_t t = threadIdx.x; t < texts.rows.count; t += cache_threads)
    if (texts.rows.starts[t] <= row && row < texts.rows.starts[t + 1]) text[0] = t;
  __syncthreads();
  return {texts.slots[text[0]], texts.positions[row]};
}

/// An element of a head, rotated to a position.
template <class T>
__device__ Math<T> rotated_value(const T* head, int i, int half, Rotation<Math<T>> rotation, std::int64_t position) {
  const bool is_first = i < half;
  const Math<T> other = widened(head[is_first ? i + half : i - half]);
  const std::int64_t angle = position * half + (is_first ? i : i - half);
  return widened(head[i]) * rotation.cosine[angle] + (is_first ? -other : other) * rotation.sine[angle];
}

/// A block stores the keys and values of a row.
template <class T>
__global__ void __launch_bounds__(cache_threads, 1) store_in_cache(CachedCall<T> call) {
  const std::int64_t row = blockIdx.x;
  const CachedPlace at = place_of_row(call.texts, row);
  const int size = call.size(), key_heads = static_cast<int>(call.shape.kv_heads);
  const std::int64_t place = at.position % call.texts.capacity * size;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * key_heads * size; i += cache_threads) {
    const int of = i / size, column = i % size;
    const T* const from = call.head(row, call.shape.heads + of);
    T& to = call.cached_head(at.slot, of)[place + column];
    if (of < key_heads && call.rotation.cosine != nullptr)
      narrow(rotated_value(from, column, size / 2, call.rotation, at.position), to);
    else
      to = from[column];
  }
}

/// The rows of a cached head that a query sees, by their order in the text.
template <class T>
struct SeenRows {
  const T* head;
  std::int64_t first, capacity;  // first: the place of the first one
  int size;

  __device__ const T* operator[](std::int64_t i) const {
    const std::int64_t place = first + i;
    return head + (place < capacity ? place : place - capacity) * size;
  }
};

/// The threads for the packs of a row: a power of 2, at most `most`.
__host__ __device__ constexpr int row_lanes(int packs, int most) {
  int lanes = 1;
  while (lanes < packs && lanes < most) lanes *= 2;
  return lanes;
}

/// Shared memory of a block for Q queries.
template <class T, int Q>
struct CacheTiles {
  static constexpr int pack = lanes_of_access<T>;
  __host__ __device__ static constexpr int packs(int size) { return (size + pack - 1) / pack; }
  __host__ __device__ static constexpr int query_values(int size) { return Q * packs(size) * pack; }
  static constexpr int score_values = chunk_keys * Q, sum_values = cache_threads * pack;
  static std::size_t bytes(int size) {
    return static_cast<std::size_t>(query_values(size) + score_values + sum_values) * sizeof(Math<T>);
  }
};

/// scores (keys, Q) = the products of Q queries (Q, whole packs) with keys [begin, begin + count). A few lanes of a
/// warp have a key.
template <class T, int Q>
__device__ void score_cached_keys(const Math<T>* queries, const SeenRows<T>& keys, std::int64_t begin, int count,
                                  bool packed, Math<T>* scores) {
  using M = Math<T>;
  constexpr int V = lanes_of_access<T>;
  const int packs = CacheTiles<T, Q>::packs(keys.size), lanes = row_lanes(packs, warp_size);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
  for (int first = 0; first < count; first += cache_threads / lanes * keys_at_once) {
    const int key = first + thread / lanes * keys_at_once;
    M sums[keys_at_once][Q] = {};
    for (int column = lane * V; column < keys.size; column += lanes * V) {
      M values[keys_at_once][V];
#pragma unroll
      for (int k = 0; k < keys_at_once; ++k)
        load_values(keys[begin + std::min(key + k, count - 1)] + column, lanes_left<V>(keys.size - column), packed,
                    values[k]);
#pragma unroll
      for (int q = 0; q < Q; ++q) {
        M query[V];
        load_values(queries + q * packs * V + column, V, true, query);
#pragma unroll
        for (int k = 0; k < keys_at_once; ++k) {
#pragma unroll
          for (int i = 0; i < V; ++i) sums[k][q] += query[i] * values[k][i];
        }
      }
    }
#pragma unroll
    for (int k = 0; k < keys_at_once; ++k) {
#pragma unroll
      for (int q = 0; q < Q; ++q) {
        const M sum = warp_sum(sums[k][q], lanes);
        if (lane == 0 && key + k < count) scores[(key + k) * Q + q] = sum;
      }
    }
  }
}

/// The softmax of one query over chunks of keys, by a warp.
template <class M>
struct ChunkSoftmax {
  M largest = -std::numeric_limits<M>::infinity(), total = 0;

  /// Replaces `count` scores, `stride` apart, by e^(score − largest). Returns the factor of earlier sums.
  __device__ M add(M* scores, int count, int stride) {
    const int lane = static_cast<int>(threadIdx.x % warp_size);
    M most = largest;
    for (int i = lane; i < count; i += static_cast<int>(warp_size)) {
      const M score = scores[i * stride];
      most = score > most ? score : most;
    }
    most = warp_max(most);
    const M change = largest == most ? M{1} : exp(largest - most);
    M sum = 0;
    for (int i = lane; i < count; i += static_cast<int>(warp_size)) {
      const M weight = exp(scores[i * stride] - most);
      scores[i * stride] = weight;
      sum += weight;
    }
    total = total * change + warp_sum(sum);
    largest = most;
    return change;
  }
};

/// sums (Q, a pack) += the weights (keys, Q) of Q queries times the columns of this thread of values [begin,
/// begin + count). Groups of `lanes` threads have whole rows.
template <class T, int Q>
__device__ void add_cached_values(const Math<T>* weights, const SeenRows<T>& values, std::int64_t begin, int count,
                                  bool packed, int lanes, Math<T> (&sums)[Q][lanes_of_access<T>]) {
  using M = Math<T>;
  constexpr int V = lanes_of_access<T>;
  const int thread = static_cast<int>(threadIdx.x), column = thread % lanes * V;
  if (column >= values.size) return;
  for (int key = thread / lanes * keys_at_once; key < count; key += cache_threads / lanes * keys_at_once) {
    M rows[keys_at_once][V];
#pragma unroll
    for (int k = 0; k < keys_at_once; ++k)
      load_values(values[begin + std::min(key + k, count - 1)] + column, lanes_left<V>(values.size - column), packed,
                  rows[k]);
#pragma unroll
    for (int k = 0; k < keys_at_once; ++k) {
      if (key + k >= count) continue;
      M weight[Q];
      load_values(weights + (key + k) * Q, Q, true, weight);
#pragma unroll
      for (int q = 0; q < Q; ++q) {
#pragma unroll
        for (int i = 0; i < V; ++i) sums[q][i] += weight[q] * rows[k][i];
      }
    }
  }
}

/// A block has one row, with Q query heads of one key head or fewer at the end of a group. It goes through the
/// positions that the row sees in chunks, with an online softmax.
template <class T, int Q>
__global__ void __launch_bounds__(cache_threads, 1) attend_to_cache(CachedCall<T> call) {
  using M = Math<T>;
  using Tiles = CacheTiles<T, Q>;
  constexpr int V = lanes_of_access<T>;
  const int size = call.size(), stride = Tiles::packs(size) * V, thread = static_cast<int>(threadIdx.x);
  const std::int64_t key_heads = call.shape.kv_heads, group = call.shape.heads / key_heads, parts = (group + Q - 1) / Q;
  const std::int64_t part = blockIdx.x % parts, kv_head = blockIdx.x / parts % key_heads,
                     row = blockIdx.x / parts / key_heads, first_head = kv_head * group + part * Q;
  const int queries = static_cast<int>(std::min<std::int64_t>(Q, group - part * Q));
  const CachedPlace at = place_of_row(call.texts, row);
  const std::int64_t window = call.shape.window;
  const std::int64_t seen = window == 0 ? at.position + 1 : std::min(window, at.position + 1);
  const std::int64_t first = (at.position + 1 - seen) % call.texts.capacity;
  const SeenRows<T> keys{call.cached_head(at.slot, kv_head), first, call.texts.capacity, size};
  const SeenRows<T> values{call.cached_head(at.slot, key_heads + kv_head), first, call.texts.capacity, size};

  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  LOCKSTEP_SHARED(M, of_queries, Q);  // the factor of earlier sums, and in the end the sum of all weights
  M* const packed_queries = shared;
  M* const scores = packed_queries + Tiles::query_values(size);
  M* const sums_of_threads = scores + Tiles::score_values;
  for (int i = thread; i < Tiles::query_values(size); i += cache_threads) {
    const int q = i / stride, column = i % stride;
    M value = 0;
    if (q < queries && column < size) {
      const T* const head = call.head(row, first_head + q);
      value = call.rotation.cosine == nullptr ? widened(head[column])
                                              : rotated_value(head, column, size / 2, call.rotation, at.position);
    }
    packed_queries[i] = value * call.scale;
  }
  __syncthreads();

  const int warp = thread / static_cast<int>(warp_size), lanes = row_lanes(Tiles::packs(size), cache_threads);
  ChunkSoftmax<M> softmax;
  M sums[Q][V] = {};
  for (std::int64_t begin = 0; begin < seen; begin += chunk_keys) {
    const int count = static_cast<int>(std::min<std::int64_t>(chunk_keys, seen - begin));
    score_cached_keys<T, Q>(packed_queries, keys, begin, count, call.packed, scores);
    __syncthreads();  // the scores are complete
    if (warp < Q) {
      const M change = softmax.add(scores + warp, count, Q);
      if (thread % static_cast<int>(warp_size) == 0) of_queries[warp] = change;
    }
    __syncthreads();  // the weights are complete
#pragma unroll
    for (int q = 0; q < Q; ++q) {
#pragma unroll
      for (int i = 0; i < V; ++i) sums[q][i] *= of_queries[q];
    }
    add_cached_values<T, Q>(scores, values, begin, count, call.packed, lanes, sums);
    __syncthreads();  // the next chunk may write
  }
  if (warp < Q && thread % static_cast<int>(warp_size) == 0) of_queries[warp] = softmax.total;
#pragma unroll
  for (int q = 0; q < Q; ++q) {
#pragma unroll
    for (int i = 0; i < V; ++i) sums_of_threads[thread * V + i] = sums[q][i];
    __syncthreads();  // the sums are complete
    for (int column = thread; q < queries && column < size; column += cache_threads) {
      M sum = 0;
      for (int of = 0; of < cache_threads / lanes; ++of) sum += sums_of_threads[of * lanes * V + column];
      narrow(sum / of_queries[q], call.y[(row * call.shape.heads + first_head + q) * size + column]);
    }
    __syncthreads();  // the next query may write
  }
}

/// The query heads of a block. Four heads share each key that is read; a small call has a block for each head, so that
/// the GPU is busy. The order of a query's sums does not depend on it.
int queries_of_block(std::int64_t key_heads, std::int64_t group) {
  constexpr std::int64_t enough_blocks = 256;
  int queries = 4;
  while (queries > 1 && (queries / 2 >= group || key_heads * ((group + queries - 1) / queries) < enough_blocks))
    queries /= 2;
  return queries;
}

}  // namespace

template <class T>
void cached_attention(const T* qkv, const AttentionShape& shape, const CachedTexts& texts, Rotation<Math<T>> rotation,
                      T* cache, T* y) {
  if (shape.head_size > 256) check_launch(invalid_launch);
  const std::int64_t rows = texts.rows.tokens, group = shape.heads / shape.kv_heads;
  const CachedCall<T> call{qkv,
                           shape,
                           shape.width(),
                           texts,
                           rotation,
                           cache,
                           y,
                           static_cast<Math<T>>(1 / std::sqrt(static_cast<double>(shape.head_size))),
                           packable(shape.head_size, lanes_of_access<T>, {cache})};
  launch(store_in_cache<T>, rows, cache_threads, 0, call);
  const auto attend = [&](auto queries) {
    constexpr int Q = decltype(queries)::value;
    launch(attend_to_cache<T, Q>, rows * shape.kv_heads * ((group + Q - 1) / Q), cache_threads,
           CacheTiles<T, Q>::bytes(static_cast<int>(shape.head_size)), call);
  };
  switch (queries_of_block(rows * shape.kv_heads, group)) {
    case 1: return attend(std::integral_constant<int, 1>{});
    case 2: return attend(std::integral_constant<int, 2>{});
    default: return attend(std::integral_constant<int, 4>{});
  }
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void cached_attention<T>(const T*, const AttentionShape&, const CachedTexts&, Rotation<Math<T>>, T*, T*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
