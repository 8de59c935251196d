#include "tensor/kernels/query_products.hpp"

#include "tensor/kernels/wide.hpp"

#include <algorithm>
#include <type_traits>

namespace lockstep {

namespace {

template <class T>
LOCKSTEP_CLONES void score_each(const Math<T>* x, std::int64_t queries, const StoredRows<T>& keys, Math<T>* scores,
                                std::int64_t stride) {
  for (std::int64_t j = 0; j < keys.count; ++j) {
    const T* const key = keys.first + j * keys.size;
    for (std::int64_t q = 0; q < queries; ++q) {
      const Math<T>* const query = x + q * keys.size;
      Math<T> sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < keys.size; ++i) sum += query[i] * load(key[i]);
      scores[q * stride + j] = sum;
    }
  }
}

template <class T>
LOCKSTEP_CLONES void add_each(const Math<T>* weights, std::int64_t stride, std::int64_t queries,
                              const StoredRows<T>& values, Math<T>* sums, std::int64_t sum_stride) {
  for (std::int64_t j = 0; j < values.count; ++j) {
    const T* const value = values.first + j * values.size;
    for (std::int64_t q = 0; q < queries; ++q) {
      const Math<T> weight = weights[q * stride + j];
      Math<T>* const sum = sums + q * sum_stride;
#pragma omp simd
      for (std::int64_t i = 0; i < values.size; ++i) sum[i] += weight * load(value[i]);
    }
  }
}

/// Calls body(first query, their number as a constant) for groups of up to four queries, whose sums fit in registers.
template <class Body>
void for_query_groups(std::int64_t queries, const Body& body) {
  for (std::int64_t first = 0; first < queries; first += 4) {
    switch (std::min<std::int64_t>(4, queries - first)) {
      case 1: body(first, std::integral_constant<int, 1>{}); break;
      case 2: body(first, std::integral_constant<int, 2>{}); break;
      case 3: body(first, std::integral_constant<int, 3>{}); break;
      default: body(first, std::integral_constant<int, 4>{});
    }
  }
}

#ifdef LOCKSTEP_INTRINSICS

template <int queries, class T>
LOCKSTEP_WIDE void score_wide(const float* x, const StoredRows<T>& keys, float* scores, std::int64_t stride) {
  const std::int64_t size = keys.size;
  const T* key = keys.first;
  for (std::int64_t j = 0; j < keys.count; ++j, key += size) {
    __m512 sum[queries];
#pragma GCC unroll 4
    for (int q = 0; q < queries; ++q) sum[q] = _mm512_setzero_ps();
    for (std::int64_t c = 0; c < size; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(size - c);
      const __m512 column = load_wide(key + c, lanes);
#pragma GCC unroll 4
      for (int q = 0; q < queries; ++q) sum[q] = _mm512_fmadd_ps(load_wide(x + q * size + c, lanes), column, sum[q]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < queries; ++q) scores[q * stride + j] = _mm512_reduce_add_ps(sum[q]);
  }
}

template <int queries, class T>
LOCKSTEP_WIDE void add_wide(const float* weights, std::int64_t stride, const StoredRows<T>& values, float* sums,
                            std::int64_t sum_stride) {
  constexpr int panels = 4;  // of 16 columns
  for (std::int64_t first = 0; first < values.size; first += panels * wide_lanes) {
    __mmask16 lanes[panels];
    __m512 sum[queries][panels], value[panels];
#pragma GCC unroll 4
    for (int p = 0; p < panels; ++p) {
      lanes[p] = lanes_of(std::max<std::int64_t>(0, values.size - first - p * wide_lanes));
#pragma GCC unroll 4
      for (int q = 0; q < queries; ++q) sum[q][p] = load_wide(sums + q * sum_stride + first + p * wide_lanes, lanes[p]);
    }
    const T* from = values.first + first;
    for (std::int64_t j = 0; j < values.count; ++j, from += values.size) {
#pragma GCC unroll 4
      for (int p = 0; p < panels; ++p) value[p] = load_wide(from + p * wide_lanes, lanes[p]);
#pragma GCC unroll 4
      for (int q = 0; q < queries; ++q) {
        const __m512 weight = _mm512_set1_ps(weights[q * stride + j]);
#pragma GCC unroll 4
        for (int p = 0; p < panels; ++p) sum[q][p] = _mm512_fmadd_ps(weight, value[p], sum[q][p]);
      }
    }
#pragma GCC unroll 4
    for (int q = 0; q < queries; ++q) {
#pragma GCC unroll 4
      for (int p = 0; p < panels; ++p) store_wide(sums + q * sum_stride + first + p * wide_lanes, lanes[p], sum[q][p]);
    }
  }
}

#else

template <int queries, class T>
void score_wide(const float*, const StoredRows<T>&, float*, std::int64_t) {}
template <int queries, class T>
void add_wide(const float*, std::int64_t, const StoredRows<T>&, float*, std::int64_t) {}

#endif

}  // namespace

template <class T>
void score_rows(const Math<T>* x, std::int64_t queries, const StoredRows<T>& keys, Math<T>* scores,
                std::int64_t stride) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (is_wide()) {
      return for_query_groups(queries, [&](std::int64_t first, auto count) {
        score_wide<decltype(count)::value>(x + first * keys.size, keys, scores + first * stride, stride);
      });
    }
  }
  score_each<T>(x, queries, keys, scores, stride);
}

template <class T>
void add_weighted_rows(const Math<T>* weights, std::int64_t stride, std::int64_t queries, const StoredRows<T>& values,
                       Math<T>* sums, std::int64_t sum_stride) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (is_wide()) {
      return for_query_groups(queries, [&](std::int64_t first, auto count) {
        add_wide<decltype(count)::value>(weights + first * stride, stride, values, sums + first * sum_stride,
                                         sum_stride);
      });
    }
  }
  add_each<T>(weights, stride, queries, values, sums, sum_stride);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                  \
  template void score_rows<T>(const Math<T>*, std::int64_t, const StoredRows<T>&, Math<T>*, std::int64_t);       \
  template void add_weighted_rows<T>(const Math<T>*, std::int64_t, std::int64_t, const StoredRows<T>&, Math<T>*, \
                                     std::int64_t);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
