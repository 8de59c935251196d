#include "cuda/kernels/norms.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/partial_sums.cuh"

namespace lockstep::cuda {

namespace {

// Both norms: an RMSNorm has no mean. Packs are aligned in fp32 or fp64, the types that most bytes have.
template <class T>
constexpr int norm_lanes = lanes_of_access<Math<T>>;

constexpr int norm_threads = 512;                     // at most
constexpr std::int64_t norm_partial_blocks = 512;     // of backward, at most
constexpr std::int64_t norm_shared_bytes = 40 << 10;  // for sums of columns in a block, at most

unsigned threads_of_row(std::int64_t channels, int lanes) {
  const std::int64_t packs = (channels + lanes - 1) / lanes;
  if (packs > 2048) return norm_threads;
  return static_cast<unsigned>(std::clamp<std::int64_t>((packs + 31) / 32 * 32, 32, 256));
}

/// Calls body(column, count) for the packs of a row that this thread has.
template <int lanes, class Body>
__device__ void over_own_packs(std::int64_t channels, const Body& body) {
  for (std::int64_t column = std::int64_t{threadIdx.x} * lanes; column < channels;
       column += std::int64_t{blockDim.x} * lanes)
    body(column, lanes_left<lanes>(channels - column));
}

/// A block has a row.
template <class T>
__global__ void __launch_bounds__(norm_threads)
    norm_row(const Math<T>* x, const T* weight, const T* bias, Math<T> eps, std::int64_t channels, bool packed, T* y,
             Math<T>* mean, Math<T>* rstd) {
  using M = Math<T>;
  constexpr int lanes = norm_lanes<T>;
  const std::int64_t row = blockIdx.x;
  x += row * channels;
  y += row * channels;
  M centre = 0;
  if (mean) {
    M sum = 0;
    over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
      M values[lanes];
      load_values(x + column, count, packed, values);
#pragma unroll
      for (int i = 0; i < lanes; ++i) sum += values[i];
    });
    centre = block_sum(sum) / static_cast<M>(channels);
  }
  M squares = 0;
  over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
    M values[lanes];
    load_values(x + column, count, packed, values);
#pragma unroll
    for (int i = 0; i < lanes; ++i) {
      if (i < count) squares += (values[i] - centre) * (values[i] - centre);
    }
  });
  const M scale = 1 / sqrt(block_sum(squares) / static_cast<M>(channels) + eps);
  if (threadIdx.x == 0) {
    if (mean) mean[row] = centre;
    rstd[row] = scale;
  }
  over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
    M values[lanes], weights[lanes], biases[lanes] = {};
    load_values(x + column, count, packed, values);
    load_values(weight + column, count, packed, weights);
    if (bias) load_values(bias + column, count, packed, biases);
#pragma unroll
    for (int i = 0; i < lanes; ++i) values[i] = (values[i] - centre) * scale * weights[i] + biases[i];
    store_values(values, count, packed, y + column);
  });
}

/// The arguments of a backward pass.
template <class T>
struct NormBackward {
  const T* dy;
  const Math<T>* x;
  const T* weight;
  const Math<T>*mean, *rstd, *residual;
  std::int64_t rows, channels;
  bool packed, has_bias;
  Math<T>* dx;
  Math<T>* partials;  // (blocks, channels, or twice that with a bias)
  bool shared_sums;   // columns are summed in shared memory, then copied to the partials
};

/// A block has every gridDim-th row, and a thread the same columns of each, so that it sums those on its own.
template <class T>
__global__ void __launch_bounds__(norm_threads, 1) norm_rows_backward(NormBackward<T> of) {
  using M = Math<T>;
  constexpr int lanes = norm_lanes<T>;
  LOCKSTEP_DYNAMIC_SHARED(M, shared);
  const std::int64_t channels = of.channels;
  M* const partials = of.partials + blockIdx.x * channels * (of.has_bias ? 2 : 1);
  M* const weight_sums = of.shared_sums ? shared : partials;
  M* const bias_sums = weight_sums + channels;
  over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
    for (int i = 0; i < count; ++i) {
      weight_sums[column + i] = 0;
      if (of.has_bias) bias_sums[column + i] = 0;
    }
  });
  for (std::int64_t row = blockIdx.x; row < of.rows; row += gridDim.x) {
    const std::int64_t at = row * channels;
    const M centre = of.mean ? of.mean[row] : M{0}, scale = of.rstd[row];
    M sums[2] = {};  // Σ g·w and Σ g·w·normal
    over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
      M g[lanes], w[lanes], x[lanes];
      load_values(of.dy + at + column, count, of.packed, g);
      load_values(of.weight + column, count, of.packed, w);
      load_values(of.x + at + column, count, of.packed, x);
#pragma unroll
      for (int i = 0; i < lanes; ++i) {
        if (i >= count) continue;
        sums[0] += g[i] * w[i];
        sums[1] += g[i] * w[i] * ((x[i] - centre) * scale);
      }
    });
    block_sums(sums);
    const M shift = of.mean ? sums[0] / static_cast<M>(channels) : M{0}, slope = sums[1] / static_cast<M>(channels);
    over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
      M g[lanes], w[lanes], x[lanes], passed[lanes] = {};
      load_values(of.dy + at + column, count, of.packed, g);
      load_values(of.weight + column, count, of.packed, w);
      load_values(of.x + at + column, count, of.packed, x);
      if (of.residual) load_values(of.residual + at + column, count, of.packed, passed);
#pragma unroll
      for (int i = 0; i < lanes; ++i) {
        if (i >= count) continue;
        const M normal = (x[i] - centre) * scale;
        weight_sums[column + i] += g[i] * normal;
        if (of.has_bias) bias_sums[column + i] += g[i];
        passed[i] += scale * (g[i] * w[i] - shift - normal * slope);
      }
      store_values(passed, count, of.packed, of.dx + at + column);
    });
  }
  if (!of.shared_sums) return;
  over_own_packs<lanes>(channels, [&](std::int64_t column, int count) {
    for (int i = 0; i < count; ++i) {
      partials[column + i] = weight_sums[column + i];
      if (of.has_bias) partials[channels + column + i] = bias_sums[column + i];
    }
  });
}

template <class T>
void norm_forward(const Math<T>* x, const T* weight, const T* bias, double eps, std::int64_t rows,
                  std::int64_t channels, T* y, Math<T>* mean, Math<T>* rstd) {
  const bool packed = packable(channels, norm_lanes<T>, {x, weight, bias, y});
  launch(norm_row<T>, rows, threads_of_row(channels, norm_lanes<T>), 0, x, weight, bias, static_cast<Math<T>>(eps),
         channels, packed, y, mean, rstd);
}

template <class T>
void norm_backward(NormBackward<T> of, Math<T>* dweight, double weight_beta, Math<T>* dbias, double bias_beta) {
  of.has_bias = dbias != nullptr;
  of.packed = packable(of.channels, norm_lanes<T>, {of.dy, of.x, of.weight, of.residual, of.dx});
  const std::int64_t blocks = std::min(of.rows, norm_partial_blocks), columns = of.channels * (of.has_bias ? 2 : 1);
  const std::int64_t bytes = columns * static_cast<std::int64_t>(sizeof(Math<T>));
  of.shared_sums = bytes <= norm_shared_bytes;
  of.partials = static_cast<Math<T>*>(kernel_scratch(static_cast<std::size_t>(blocks * bytes)));
  launch(norm_rows_backward<T>, blocks, threads_of_row(of.channels, norm_lanes<T>),
         static_cast<std::size_t>(of.shared_sums ? bytes : 0), of);
  add_partials(of.partials, blocks, of.channels, columns, weight_beta, dweight);
  if (dbias) add_partials(of.partials + of.channels, blocks, of.channels, columns, bias_beta, dbias);
}

}  // namespace

template <class T>
void layer_norm_forward(const Math<T>* x, const T* weight, const T* bias, double eps, std::int64_t rows,
                        std::int64_t channels, T* y, Math<T>* mean, Math<T>* rstd) {
  norm_forward(x, weight, bias, eps, rows, channels, y, mean, rstd);
}

template <class T>
void layer_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* mean, const Math<T>* rstd,
                         const Math<T>* residual, std::int64_t rows, std::int64_t channels, Math<T>* dx,
                         Math<T>* dweight, double weight_beta, Math<T>* dbias, double bias_beta) {
  norm_backward<T>({dy, x, weight, mean, rstd, residual, rows, channels, false, false, dx, nullptr, false}, dweight,
                   weight_beta, dbias, bias_beta);
}

template <class T>
void rms_norm_forward(const Math<T>* x, const T* weight, double eps, std::int64_t rows, std::int64_t channels, T* y,
                      Math<T>* rstd) {
  norm_forward<T>(x, weight, nullptr, eps, rows, channels, y, nullptr, rstd);
}

template <class T>
void rms_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* rstd, const Math<T>* residual,
                       std::int64_t rows, std::int64_t channels, Math<T>* dx, Math<T>* dweight, double weight_beta) {
  norm_backward<T>({dy, x, weight, nullptr, rstd, residual, rows, channels, false, false, dx, nullptr, false}, dweight,
                   weight_beta, nullptr, 0);
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

}  // namespace lockstep::cuda
