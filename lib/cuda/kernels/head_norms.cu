#include "cuda/kernels/head_norms.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/partial_sums.cuh"

namespace lockstep::cuda {

namespace {

// A group of lanes has a head, and each lane 8 elements of it.
constexpr int head_lanes = 8, head_threads = 256;

/// The heads of a matrix of queries, keys and values that a kernel goes through.
struct HeadLayout {
  std::int64_t row_width = 0;                      // elements of a row
  int heads = 0, normed = 0, size = 0, first = 0;  // `heads` of each row, from `first` on
  std::int64_t rows = 0;
  int width = 0;  // lanes of a group

  __device__ int groups() const { return head_threads / width; }
  __device__ std::int64_t tasks() const { return rows * heads; }
};

/// One head of a row, and the elements of it that this lane has.
struct OwnHead {
  __device__ OwnHead(const HeadLayout& layout, std::int64_t task)
      : column(static_cast<int>(threadIdx.x) % layout.width * head_lanes), row(task / layout.heads) {
    head = layout.first + static_cast<int>(task % layout.heads);
    is_real = task < layout.tasks();
    count = is_real ? lanes_left<head_lanes>(layout.size - column) : 0;
    at = row * layout.row_width + std::int64_t{head} * layout.size + column;
  }
  int column, head, count;
  std::int64_t row, at;
  bool is_real;  // else a lane without work, for the sums
};

template <class T>
__global__ void __launch_bounds__(head_threads)
    norm_heads(const T* qkv, HeadLayout layout, int query_heads, const T* query_weight, const T* key_weight,
               Math<T> eps, bool packed, T* y, Math<T>* rstd) {
  using M = Math<T>;
  const OwnHead own(layout, std::int64_t{blockIdx.x} * layout.groups() + static_cast<int>(threadIdx.x) / layout.width);
  M x[head_lanes], w[head_lanes], squares = 0;
  load_values(qkv + own.at, own.count, packed, x);
#pragma unroll
  for (int i = 0; i < head_lanes; ++i) squares += x[i] * x[i];
  squares = warp_sum(squares, layout.width);
  if (own.head < layout.normed) {
    const M scale = 1 / sqrt(squares / static_cast<M>(layout.size) + eps);
    load_values((own.head < query_heads ? query_weight : key_weight) + own.column, own.count, packed, w);
#pragma unroll
    for (int i = 0; i < head_lanes; ++i) x[i] = x[i] * scale * w[i];
    if (own.is_real && own.column == 0) rstd[own.row * layout.normed + own.head] = scale;
  }
  store_values(x, own.count, packed, y + own.at);
}

template <class T>
struct HeadGradients {
  const T *dy, *qkv, *weight;
  const Math<T>* rstd;
  bool packed;
  T* dqkv;
  Math<T>* partials;  // (blocks, D)
};

/// A block goes through every gridDim-th set of heads of one weight. Heads that are not normed are copied.
template <class T>
__global__ void __launch_bounds__(head_threads) norm_heads_backward(HeadGradients<T> of, HeadLayout layout) {
  using M = Math<T>;
  LOCKSTEP_SHARED(M, of_groups, head_threads * head_lanes);
  const int group = static_cast<int>(threadIdx.x) / layout.width, groups = layout.groups();
  M w[head_lanes], dweight[head_lanes] = {};
  {
    const int column = static_cast<int>(threadIdx.x) % layout.width * head_lanes;
    load_values(of.weight + column, lanes_left<head_lanes>(layout.size - column), of.packed, w);
  }
  const std::int64_t step = std::int64_t{gridDim.x} * groups;
  for (std::int64_t first = std::int64_t{blockIdx.x} * groups; first < layout.tasks(); first += step) {
    const OwnHead own(layout, first + group);
    const bool is_normed = own.is_real && own.head < layout.normed;
    M g[head_lanes], x[head_lanes], product = 0;
    load_values(of.dy + own.at, own.count, of.packed, g);
    load_values(of.qkv + own.at, own.count, of.packed, x);
    const M scale = is_normed ? of.rstd[own.row * layout.normed + own.head] : M{0};
#pragma unroll
    for (int i = 0; i < head_lanes; ++i) {
      x[i] *= scale;
      product += g[i] * w[i] * x[i];
    }
    const M slope = warp_sum(product, layout.width) / static_cast<M>(layout.size);
    if (is_normed) {
#pragma unroll
      for (int i = 0; i < head_lanes; ++i) {
        dweight[i] += g[i] * x[i];
        g[i] = scale * (g[i] * w[i] - x[i] * slope);
      }
    }
    store_values(g, own.count, of.packed, of.dqkv + own.at);
  }
#pragma unroll
  for (int i = 0; i < head_lanes; ++i) of_groups[static_cast<int>(threadIdx.x) * head_lanes + i] = dweight[i];
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= layout.size) return;
  M sum = 0;
  for (int g = 0; g < groups; ++g) sum += of_groups[g * layout.width * head_lanes + column];
  of.partials[std::int64_t{blockIdx.x} * layout.size + column] = sum;
}

/// Heads [first, first + heads) of each row.
HeadLayout heads_of(const AttentionShape& shape, std::int64_t rows, std::int64_t first, std::int64_t heads) {
  if (shape.head_size > static_cast<int>(warp_size) * head_lanes) check_launch(invalid_launch);
  int width = 1;
  while (width * head_lanes < shape.head_size) width *= 2;
  return {shape.width(),
          static_cast<int>(heads),
          static_cast<int>(shape.heads + shape.kv_heads),
          static_cast<int>(shape.head_size),
          static_cast<int>(first),
          rows,
          width};
}

}  // namespace

template <class T>
void head_norm_forward(const T* qkv, const AttentionShape& shape, const T* query_weight, const T* key_weight,
                       double eps, std::int64_t rows, T* y, Math<T>* rstd) {
  const HeadLayout layout = heads_of(shape, rows, 0, shape.heads + 2 * shape.kv_heads);
  const std::int64_t groups = head_threads / layout.width;
  const bool packed = packable(shape.head_size, head_lanes, {qkv, query_weight, key_weight, y});
  launch(norm_heads<T>, (rows * layout.heads + groups - 1) / groups, head_threads, 0, qkv, layout,
         static_cast<int>(shape.heads), query_weight, key_weight, static_cast<Math<T>>(eps), packed, y, rstd);
}

template <class T>
void head_norm_backward(const T* dy, const T* qkv, const AttentionShape& shape, const T* query_weight,
                        const T* key_weight, const Math<T>* rstd, std::int64_t rows, T* dqkv, Math<T>* dquery_weight,
                        double query_beta, Math<T>* dkey_weight, double key_beta) {
  constexpr std::int64_t most_blocks = 512;
  const auto run = [&](std::int64_t first, std::int64_t heads, const T* weight, double beta, Math<T>* dweight) {
    const HeadLayout layout = heads_of(shape, rows, first, heads);
    const std::int64_t groups = head_threads / layout.width;
    const std::int64_t blocks = std::min(most_blocks, (rows * heads + groups - 1) / groups);
    auto* const partials =
        static_cast<Math<T>*>(kernel_scratch(static_cast<std::size_t>(blocks * shape.head_size) * sizeof(Math<T>)));
    const bool packed = packable(shape.head_size, head_lanes, {dy, qkv, weight, dqkv});
    launch(norm_heads_backward<T>, blocks, head_threads, 0,
           HeadGradients<T>{dy, qkv, weight, rstd, packed, dqkv, partials}, layout);
    add_partials(partials, blocks, shape.head_size, shape.head_size, beta, dweight);
  };
  run(0, shape.heads, query_weight, query_beta, dquery_weight);
  run(shape.heads, 2 * shape.kv_heads, key_weight, key_beta, dkey_weight);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                      \
  template void head_norm_forward<T>(const T*, const AttentionShape&, const T*, const T*, double, std::int64_t, T*,  \
                                     Math<T>*);                                                                      \
  template void head_norm_backward<T>(const T*, const T*, const AttentionShape&, const T*, const T*, const Math<T>*, \
                                      std::int64_t, T*, Math<T>*, double, Math<T>*, double);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
