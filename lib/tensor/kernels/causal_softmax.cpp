#include "tensor/kernels/causal_softmax.hpp"

#include "tensor/kernels/wide.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace lockstep {

namespace {

/// A row from the first element that it sees.
struct SeenRow {
  SeenRow(const CausalRows& tile, std::int64_t row)
      : hidden(std::min(hidden_keys(tile.first + row, tile.window), tile.width)),
        count(std::min(tile.first + row + 1, tile.width) - hidden),
        width(tile.width - hidden) {}
  std::int64_t hidden, count, width;  // width: with what is hidden behind
};

/// Of a row that sees nothing.
template <class M>
void keep_nothing(M& inverse_sum, M& log_sum) {
  inverse_sum = 0;
  log_sum = -std::numeric_limits<M>::infinity();
}

template <class M>
LOCKSTEP_CLONES void softmax_rows(const CausalRows& tile, M* scores, M* inverse_sums, M* log_sums,
                                  std::int64_t log_stride) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const SeenRow seen(tile, r);
    M* row = scores + r * tile.stride;
    std::fill_n(row, seen.hidden, M{0});
    row += seen.hidden;
    const std::int64_t visible = seen.count, width = seen.width;
    if (visible == 0) {
      std::fill_n(row, width, M{0});
      keep_nothing(inverse_sums[r], log_sums[r * log_stride]);
      continue;
    }
    M largest = row[0];
#pragma omp simd reduction(max : largest)
    for (std::int64_t j = 0; j < visible; ++j) largest = row[j] > largest ? row[j] : largest;
    M sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < visible; ++j) {
      row[j] = exp(row[j] - largest);
      sum += row[j];
    }
    for (std::int64_t j = visible; j < width; ++j) row[j] = 0;
    inverse_sums[r] = 1 / sum;
    log_sums[r * log_stride] = largest + std::log(sum);
  }
}

template <class M>
LOCKSTEP_CLONES void softmax_rows_backward(const CausalRows& tile, M* scores, M* dp, const M* log_sums,
                                           std::int64_t log_stride, const M* products) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const SeenRow seen(tile, r);
    M* p = scores + r * tile.stride;
    M* d = dp + r * tile.stride;
    std::fill_n(p, seen.hidden, M{0});
    std::fill_n(d, seen.hidden, M{0});
    p += seen.hidden;
    d += seen.hidden;
    const std::int64_t visible = seen.count, width = seen.width;
    const M log_sum = log_sums[r * log_stride];
    M product = 0;
#pragma omp simd reduction(+ : product)
    for (std::int64_t j = 0; j < visible; ++j) {
      p[j] = exp(p[j] - log_sum);
      product += p[j] * d[j];
    }
    if (products) product = products[r * log_stride];
#pragma omp simd
    for (std::int64_t j = 0; j < visible; ++j) d[j] = p[j] * (d[j] - product);
    for (std::int64_t j = visible; j < width; ++j) p[j] = d[j] = 0;
  }
}

#ifdef LOCKSTEP_INTRINSICS

/// Zeros from the first vector that sees nothing to the end of the row.
LOCKSTEP_WIDE LOCKSTEP_INLINE void hide(float* row, std::int64_t visible, std::int64_t width) {
  for (std::int64_t j = (visible + wide_lanes - 1) / wide_lanes * wide_lanes; j < width; j += wide_lanes)
    store_wide(row + j, lanes_of(width - j), _mm512_setzero_ps());
}

LOCKSTEP_WIDE void softmax_wide(const CausalRows& tile, float* scores, float* inverse_sums, float* log_sums,
                                std::int64_t log_stride) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const SeenRow of(tile, r);
    float* row = scores + r * tile.stride;
    std::fill_n(row, of.hidden, 0.0f);
    row += of.hidden;
    const std::int64_t visible = of.count, width = of.width;
    if (visible == 0) {
      std::fill_n(row, width, 0.0f);
      keep_nothing(inverse_sums[r], log_sums[r * log_stride]);
      continue;
    }
    __m512 most = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    for (std::int64_t j = 0; j < visible; j += wide_lanes) {
      const __mmask16 seen = lanes_of(visible - j);
      most = _mm512_mask_max_ps(most, seen, most, load_wide(row + j, seen));
    }
    const float largest = _mm512_reduce_max_ps(most);
    __m512 sums = _mm512_setzero_ps();
    for (std::int64_t j = 0; j < visible; j += wide_lanes) {
      const __mmask16 seen = lanes_of(visible - j), held = lanes_of(width - j);
      const __m512 e =
          _mm512_maskz_mov_ps(seen, exp_wide(_mm512_sub_ps(load_wide(row + j, seen), _mm512_set1_ps(largest))));
      sums = _mm512_add_ps(sums, e);
      store_wide(row + j, held, e);
    }
    hide(row, visible, width);
    const float sum = _mm512_reduce_add_ps(sums);
    inverse_sums[r] = 1 / sum;
    log_sums[r * log_stride] = largest + std::log(sum);
  }
}

LOCKSTEP_WIDE void softmax_backward_wide(const CausalRows& tile, float* scores, float* dp, const float* log_sums,
                                         std::int64_t log_stride, const float* row_products) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const SeenRow of(tile, r);
    float* p = scores + r * tile.stride;
    float* d = dp + r * tile.stride;
    std::fill_n(p, of.hidden, 0.0f);
    std::fill_n(d, of.hidden, 0.0f);
    p += of.hidden;
    d += of.hidden;
    const std::int64_t visible = of.count, width = of.width;
    const __m512 log_sum = _mm512_set1_ps(log_sums[r * log_stride]);
    __m512 products = _mm512_setzero_ps();
    for (std::int64_t j = 0; j < visible; j += wide_lanes) {
      const __mmask16 seen = lanes_of(visible - j), held = lanes_of(width - j);
      const __m512 e = _mm512_maskz_mov_ps(seen, exp_wide(_mm512_sub_ps(load_wide(p + j, seen), log_sum)));
      products = _mm512_fmadd_ps(e, load_wide(d + j, seen), products);
      store_wide(p + j, held, e);
    }
    const __m512 product = _mm512_set1_ps(row_products ? row_products[r * log_stride] : _mm512_reduce_add_ps(products));
    for (std::int64_t j = 0; j < visible; j += wide_lanes) {
      const __mmask16 seen = lanes_of(visible - j), held = lanes_of(width - j);
      const __m512 e = load_wide(p + j, seen);  // 0 where hidden
      store_wide(d + j, held, _mm512_mul_ps(e, _mm512_sub_ps(load_wide(d + j, seen), product)));
    }
    hide(p, visible, width);
    hide(d, visible, width);
  }
}

#else

void softmax_wide(const CausalRows&, float*, float*, float*, std::int64_t) {}
void softmax_backward_wide(const CausalRows&, float*, float*, const float*, std::int64_t, const float*) {}

#endif

}  // namespace

template <class M>
void causal_softmax(const CausalRows& tile, M* scores, M* inverse_sums, M* log_sums, std::int64_t log_stride) {
  if constexpr (std::is_same_v<M, float>) {
    if (is_wide()) return softmax_wide(tile, scores, inverse_sums, log_sums, log_stride);
  }
  softmax_rows<M>(tile, scores, inverse_sums, log_sums, log_stride);
}

template <class M>
void causal_softmax_backward(const CausalRows& tile, M* scores, M* dp, const M* log_sums, std::int64_t log_stride,
                             const M* products) {
  if constexpr (std::is_same_v<M, float>) {
    if (is_wide()) return softmax_backward_wide(tile, scores, dp, log_sums, log_stride, products);
  }
  softmax_rows_backward<M>(tile, scores, dp, log_sums, log_stride, products);
}

template void causal_softmax<float>(const CausalRows&, float*, float*, float*, std::int64_t);
template void causal_softmax<double>(const CausalRows&, double*, double*, double*, std::int64_t);
template void causal_softmax_backward<float>(const CausalRows&, float*, float*, const float*, std::int64_t,
                                             const float*);
template void causal_softmax_backward<double>(const CausalRows&, double*, double*, const double*, std::int64_t,
                                              const double*);

}  // namespace lockstep
