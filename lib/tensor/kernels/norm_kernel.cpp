#include "tensor/kernels/norm_kernel.hpp"

#include "tensor/kernels/column_sums.hpp"
#include "tensor/kernels/row_grain.hpp"

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
      norm_backward_rows<T>(dy, x, weight, mean, rstd, residual, block * size, std::min(rows, (block + 1) * size),
                            channels, dx, weights + block * channels, biases ? biases + block * channels : nullptr);
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
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
