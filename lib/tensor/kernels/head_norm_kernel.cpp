#include "tensor/kernels/head_norm_kernel.hpp"

#include "tensor/kernels/column_sums.hpp"
#include "tensor/kernels/row_grain.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep {

namespace {

constexpr std::int64_t values_per_thread = 16384;

template <class T>
LOCKSTEP_CLONES void norm_heads(const T* x, const T* weight, double eps, std::int64_t heads, std::int64_t size, T* y,
                                Math<T>* rstd) {
  using M = Math<T>;
  for (std::int64_t head = 0; head < heads; ++head, x += size, y += size) {
    M squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < size; ++i) squares += load(x[i]) * load(x[i]);
    const M scale = 1 / std::sqrt(squares / static_cast<M>(size) + static_cast<M>(eps));
    rstd[head] = scale;
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) store(y[i], load(x[i]) * scale * load(weight[i]));
  }
}

/// dweight gets this row's heads added.
template <class T>
LOCKSTEP_CLONES void norm_heads_backward(const T* dy, const T* x, const T* weight, const Math<T>* rstd,
                                         std::int64_t heads, std::int64_t size, T* dx, Math<T>* dweight) {
  using M = Math<T>;
  for (std::int64_t head = 0; head < heads; ++head, dy += size, x += size, dx += size) {
    const M scale = rstd[head];
    M product = 0;
#pragma omp simd reduction(+ : product)
    for (std::int64_t i = 0; i < size; ++i) product += load(dy[i]) * load(weight[i]) * load(x[i]) * scale;
    const M slope = product / static_cast<M>(size);
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
      const M g = load(dy[i]), normal = load(x[i]) * scale;
      dweight[i] += g * normal;
      store(dx[i], scale * (g * load(weight[i]) - normal * slope));
    }
  }
}

}  // namespace

template <class T>
void head_norm_forward(const T* qkv, const AttentionShape& shape, const T* query_weight, const T* key_weight,
                       double eps, std::int64_t rows, T* y, Math<T>* rstd) {
  const std::int64_t width = shape.width(), normed = shape.heads + shape.kv_heads, size = shape.head_size;
  parallel_for(rows, row_grain(width, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const in = qkv + row * width;
      T* const out = y + row * width;
      Math<T>* const scales = rstd + row * normed;
      norm_heads<T>(in, query_weight, eps, shape.heads, size, out, scales);
      const std::int64_t keys = shape.heads * size;
      norm_heads<T>(in + keys, key_weight, eps, shape.kv_heads, size, out + keys, scales + shape.heads);
      std::copy(in + normed * size, in + width, out + normed * size);
    }
  });
}

template <class T>
void head_norm_backward(const T* dy, const T* qkv, const AttentionShape& shape, const T* query_weight,
                        const T* key_weight, const Math<T>* rstd, std::int64_t rows, T* dqkv, Math<T>* dquery_weight,
                        double query_beta, Math<T>* dkey_weight, double key_beta) {
  const std::int64_t width = shape.width(), normed = shape.heads + shape.kv_heads, size = shape.head_size;
  const RowBlocks blocks{rows};
  const std::int64_t count = blocks.count(), block_rows = blocks.size();
  std::vector<Math<T>> partials(static_cast<std::size_t>(2 * count * size));
  Math<T>* const queries = partials.data();
  Math<T>* const keys = queries + count * size;
  parallel_for(count, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      for (std::int64_t row = block * block_rows; row < std::min(rows, (block + 1) * block_rows); ++row) {
        const T* const given = dy + row * width;
        const T* const in = qkv + row * width;
        T* const out = dqkv + row * width;
        const Math<T>* const scales = rstd + row * normed;
        const std::int64_t key = shape.heads * size;
        norm_heads_backward<T>(given, in, query_weight, scales, shape.heads, size, out, queries + block * size);
        norm_heads_backward<T>(given + key, in + key, key_weight, scales + shape.heads, shape.kv_heads, size, out + key,
                               keys + block * size);
        std::copy(given + normed * size, given + width, out + normed * size);
      }
    }
  });
  reduce_partials(queries, count, size, query_beta, dquery_weight);
  reduce_partials(keys, count, size, key_beta, dkey_weight);
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

}  // namespace lockstep
