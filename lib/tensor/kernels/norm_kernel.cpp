#include "tensor/kernels/norm_kernel.hpp"

#include "tensor/kernels/column_sums.hpp"
#include "tensor/kernels/row_grain.hpp"
#include "tensor/kernels/wide.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace lockstep {

namespace {

constexpr std::int64_t values_per_thread = 16384;

template <class T>
LOCKSTEP_CLONES void layer_norm_rows(const Math<T>* x, const T* weight, const T* bias, double eps, std::int64_t begin,
                                     std::int64_t end, std::int64_t channels, T* y, Math<T>* mean, Math<T>* rstd) {
  using M = Math<T>;
  for (std::int64_t row = begin; row < end; ++row) {
    const M* in = x + row * channels;
    T* out = y + row * channels;
    M sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < channels; ++c) sum += in[c];
    const M centre = sum / static_cast<M>(channels);
    M squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < channels; ++c) squares += (in[c] - centre) * (in[c] - centre);
    const M scale = 1 / std::sqrt(squares / static_cast<M>(channels) + static_cast<M>(eps));
    mean[row] = centre;
    rstd[row] = scale;
    if (bias) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c)
        store(out[c], (in[c] - centre) * scale * load(weight[c]) + load(bias[c]));
    } else {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) store(out[c], (in[c] - centre) * scale * load(weight[c]));
    }
  }
}

template <class T>
LOCKSTEP_CLONES void rms_norm_rows(const Math<T>* x, const T* weight, double eps, std::int64_t begin, std::int64_t end,
                                   std::int64_t channels, T* y, Math<T>* rstd) {
  using M = Math<T>;
  for (std::int64_t row = begin; row < end; ++row) {
    const M* in = x + row * channels;
    T* out = y + row * channels;
    M squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t c = 0; c < channels; ++c) squares += in[c] * in[c];
    const M scale = 1 / std::sqrt(squares / static_cast<M>(channels) + static_cast<M>(eps));
    rstd[row] = scale;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) store(out[c], in[c] * scale * load(weight[c]));
  }
}

/// Rows [begin, end) of both norms: an RMSNorm has centre 0 and takes nothing off the mean of its gradient (mean ==
/// nullptr). dweight and dbias are this block's sums; dbias may be nullptr.
template <class T>
LOCKSTEP_CLONES void norm_backward_rows(const T* dy, const Math<T>* x, const T* weight, const Math<T>* mean,
                                        const Math<T>* rstd, const Math<T>* residual, std::int64_t begin,
                                        std::int64_t end, std::int64_t channels, Math<T>* dx, Math<T>* dweight,
                                        Math<T>* dbias) {
  using M = Math<T>;
  for (std::int64_t c = 0; c < channels; ++c) dweight[c] = 0;
  if (dbias) {
    for (std::int64_t c = 0; c < channels; ++c) dbias[c] = 0;
  }
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gradient = dy + row * channels;
    const M* in = x + row * channels;
    M* out = dx + row * channels;
    const M centre = mean ? mean[row] : M{0};
    const M scale = rstd[row];
    M sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t c = 0; c < channels; ++c) {
      const M g = load(gradient[c]) * load(weight[c]);
      sum += g;
      product += g * (in[c] - centre) * scale;
    }
    const M shift = mean ? sum / static_cast<M>(channels) : M{0};
    const M slope = product / static_cast<M>(channels);
    const M* passed = residual ? residual + row * channels : nullptr;
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) {
      const M normal = (in[c] - centre) * scale;
      const M g = load(gradient[c]);
      dweight[c] += g * normal;
      out[c] = scale * (g * load(weight[c]) - shift - normal * slope);
    }
    if (passed) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) out[c] += passed[c];
    }
    if (dbias) {
#pragma omp simd
      for (std::int64_t c = 0; c < channels; ++c) dbias[c] += load(gradient[c]);
    }
  }
}

#ifdef LOCKSTEP_INTRINSICS

/// Two vectors' worth of sums at once, so that an addition need not wait for the one before it.
struct WideSums {
  __m512 even, odd;
  LOCKSTEP_WIDE LOCKSTEP_INLINE float total() const { return _mm512_reduce_add_ps(_mm512_add_ps(even, odd)); }
};

/// Σ (in − centre)^power over a row, power 1 or 2.
template <int power>
LOCKSTEP_WIDE LOCKSTEP_INLINE float centred_sum(const float* in, std::int64_t channels, float centre) {
  WideSums sums{_mm512_setzero_ps(), _mm512_setzero_ps()};
  const __m512 shift = _mm512_set1_ps(centre);
  for (std::int64_t c = 0; c < channels; c += 2 * wide_lanes) {
    const __mmask16 first = lanes_of(channels - c),
                    second = lanes_of(std::max<std::int64_t>(0, channels - c - wide_lanes));
    const __m512 a = _mm512_maskz_sub_ps(first, load_wide(in + c, first), shift);
    const __m512 b = _mm512_maskz_sub_ps(second, load_wide(in + c + wide_lanes, second), shift);
    sums.even = power == 1 ? _mm512_add_ps(sums.even, a) : _mm512_fmadd_ps(a, a, sums.even);
    sums.odd = power == 1 ? _mm512_add_ps(sums.odd, b) : _mm512_fmadd_ps(b, b, sums.odd);
  }
  return sums.total();
}

/// Rows [begin, end) of both norms, as above: mean == nullptr for an RMSNorm.
template <class T>
LOCKSTEP_WIDE void norm_rows_wide(const float* x, const T* weight, const T* bias, double eps, std::int64_t begin,
                                  std::int64_t end, std::int64_t channels, T* y, float* mean, float* rstd) {
  for (std::int64_t row = begin; row < end; ++row) {
    const float* in = x + row * channels;
    T* out = y + row * channels;
    const auto count = static_cast<float>(channels);
    const float centre = mean ? centred_sum<1>(in, channels, 0) / count : 0;
    const float scale = 1 / std::sqrt(centred_sum<2>(in, channels, centre) / count + static_cast<float>(eps));
    if (mean) mean[row] = centre;
    rstd[row] = scale;
    for (std::int64_t c = 0; c < channels; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(channels - c);
      const __m512 normal =
          _mm512_mul_ps(_mm512_sub_ps(load_wide(in + c, lanes), _mm512_set1_ps(centre)), _mm512_set1_ps(scale));
      const __m512 weighted = _mm512_mul_ps(normal, load_wide(weight + c, lanes));
      store_wide(out + c, lanes, bias ? _mm512_add_ps(weighted, load_wide(bias + c, lanes)) : weighted);
    }
  }
}

template <class T>
LOCKSTEP_WIDE void norm_backward_rows_wide(const T* dy, const float* x, const T* weight, const float* mean,
                                           const float* rstd, const float* residual, std::int64_t begin,
                                           std::int64_t end, std::int64_t channels, float* dx, float* dweight,
                                           float* dbias) {
  std::fill_n(dweight, channels, 0.0f);
  if (dbias) std::fill_n(dbias, channels, 0.0f);
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gradient = dy + row * channels;
    const float* in = x + row * channels;
    const __m512 centre = _mm512_set1_ps(mean ? mean[row] : 0), scale = _mm512_set1_ps(rstd[row]);
    __m512 sums = _mm512_setzero_ps(), products = _mm512_setzero_ps();
    for (std::int64_t c = 0; c < channels; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(channels - c);
      const __m512 g = _mm512_mul_ps(load_wide(gradient + c, lanes), load_wide(weight + c, lanes));
      const __m512 normal = _mm512_mul_ps(_mm512_sub_ps(load_wide(in + c, lanes), centre), scale);
      sums = _mm512_add_ps(sums, g);  // g is 0 in lanes beyond the row
      products = _mm512_fmadd_ps(g, normal, products);
    }
    const auto count = static_cast<float>(channels);
    const __m512 shift = _mm512_set1_ps(mean ? _mm512_reduce_add_ps(sums) / count : 0);
    const __m512 slope = _mm512_set1_ps(_mm512_reduce_add_ps(products) / count);
    for (std::int64_t c = 0; c < channels; c += wide_lanes) {
      const __mmask16 lanes = lanes_of(channels - c);
      const __m512 g = load_wide(gradient + c, lanes);
      const __m512 normal = _mm512_mul_ps(_mm512_sub_ps(load_wide(in + c, lanes), centre), scale);
      store_wide(dweight + c, lanes, _mm512_fmadd_ps(g, normal, load_wide(dweight + c, lanes)));
      if (dbias) store_wide(dbias + c, lanes, _mm512_add_ps(g, load_wide(dbias + c, lanes)));
      const __m512 inner = _mm512_sub_ps(_mm512_mul_ps(g, load_wide(weight + c, lanes)), shift);
      const __m512 own = _mm512_mul_ps(scale, _mm512_fnmadd_ps(normal, slope, inner));
      const float* const passed = residual ? residual + row * channels + c : nullptr;
      store_wide(dx + row * channels + c, lanes, passed ? _mm512_add_ps(own, load_wide(passed, lanes)) : own);
    }
  }
}

#else

template <class T>
void norm_rows_wide(const float*, const T*, const T*, double, std::int64_t, std::int64_t, std::int64_t, T*, float*,
                    float*) {}
template <class T>
void norm_backward_rows_wide(const T*, const float*, const T*, const float*, const float*, const float*, std::int64_t,
                             std::int64_t, std::int64_t, float*, float*, float*) {}

#endif

template <class T>
void norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* mean, const Math<T>* rstd,
                   const Math<T>* residual, std::int64_t rows, std::int64_t channels, Math<T>* dx, Math<T>* dweight,
                   double weight_beta, Math<T>* dbias, double bias_beta) {
  const RowBlocks blocks{rows};
  const std::int64_t count = blocks.count(), size = blocks.size(), columns = dbias ? 2 * channels : channels;
  std::vector<Math<T>> partials(static_cast<std::size_t>(count * columns));
  Math<T>* const weights = partials.data();
  Math<T>* const biases = dbias ? weights + count * channels : nullptr;
  parallel_for(count, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * size, last = std::min(rows, first + size);
      Math<T>* const own_weights = weights + block * channels;
      Math<T>* const own_biases = biases ? biases + block * channels : nullptr;
      if constexpr (std::is_same_v<Math<T>, float>) {
        if (is_wide()) {
          norm_backward_rows_wide<T>(dy, x, weight, mean, rstd, residual, first, last, channels, dx, own_weights,
                                     own_biases);
          continue;
        }
      }
      norm_backward_rows<T>(dy, x, weight, mean, rstd, residual, first, last, channels, dx, own_weights, own_biases);
    }
  });
  reduce_partials(weights, count, channels, weight_beta, dweight);
  if (dbias) reduce_partials(biases, count, channels, bias_beta, dbias);
}

}  // namespace

template <class T>
void layer_norm_forward(const Math<T>* x, const T* weight, const T* bias, double eps, std::int64_t rows,
                        std::int64_t channels, T* y, Math<T>* mean, Math<T>* rstd) {
  parallel_for(rows, row_grain(channels, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Math<T>, float>) {
      if (is_wide()) return norm_rows_wide<T>(x, weight, bias, eps, begin, end, channels, y, mean, rstd);
    }
    layer_norm_rows<T>(x, weight, bias, eps, begin, end, channels, y, mean, rstd);
  });
}

template <class T>
void layer_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* mean, const Math<T>* rstd,
                         const Math<T>* residual, std::int64_t rows, std::int64_t channels, Math<T>* dx,
                         Math<T>* dweight, double weight_beta, Math<T>* dbias, double bias_beta) {
  norm_backward<T>(dy, x, weight, mean, rstd, residual, rows, channels, dx, dweight, weight_beta, dbias, bias_beta);
}

template <class T>
void rms_norm_forward(const Math<T>* x, const T* weight, double eps, std::int64_t rows, std::int64_t channels, T* y,
                      Math<T>* rstd) {
  parallel_for(rows, row_grain(channels, values_per_thread), [=](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<Math<T>, float>) {
      if (is_wide()) return norm_rows_wide<T>(x, weight, nullptr, eps, begin, end, channels, y, nullptr, rstd);
    }
    rms_norm_rows<T>(x, weight, eps, begin, end, channels, y, rstd);
  });
}

template <class T>
void rms_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* rstd, const Math<T>* residual,
                       std::int64_t rows, std::int64_t channels, Math<T>* dx, Math<T>* dweight, double weight_beta) {
  norm_backward<T>(dy, x, weight, nullptr, rstd, residual, rows, channels, dx, dweight, weight_beta, nullptr, 0);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                        \
  template void layer_norm_forward<T>(const Math<T>*, const T*, const T*, double, std::int64_t, std::int64_t, T*,      \
                                      Math<T>*, Math<T>*);                                                             \
  template void layer_norm_backward<T>(const T*, const Math<T>*, const T*, const Math<T>*, const Math<T>*,             \
                                       const Math<T>*, std::int64_t, std::int64_t, Math<T>*, Math<T>*, double,         \
                                       Math<T>*, double);                                                              \
  template void rms_norm_forward<T>(const Math<T>*, const T*, double, std::int64_t, std::int64_t, T*, Math<T>*);       \
  template void rms_norm_backward<T>(const T*, const Math<T>*, const T*, const Math<T>*, const Math<T>*, std::int64_t, \
                                     std::int64_t, Math<T>*, Math<T>*, double);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
