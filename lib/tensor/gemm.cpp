#include "tensor/gemm.hpp"

#include "base/checked_cast.hpp"
#include "tensor/kernels/amx_gemm.hpp"
#include "tensor/kernels/bias.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <utility>
#include <vector>

// Exported by LibTorch's CPU library, which links MKL (x86) or another BLAS.
extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
            const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
            const double*, const int*, const double*, double*, const int*);
#ifdef LOCKSTEP_BF16_GEMM
void cblas_gemm_bf16bf16f32(int, int, int, int, int, int, float, const std::uint16_t*, int, const std::uint16_t*, int,
                            float, float*, int);
#endif
}

namespace lockstep {

namespace {

int narrow(std::int64_t side) { return checked_cast<int>(side, "a side of matrices to multiply", ExitCode::resources); }

/// True if there is nothing to multiply; c is then β·c.
template <class M>
bool trivial(std::int64_t m, std::int64_t n, std::int64_t k, double beta, M* c, std::int64_t c_stride) {
  if (m > 0 && n > 0 && k > 0) return false;
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      M& value = c[row * c_stride + column];
      value = beta == 0 ? M{0} : static_cast<M>(beta) * value;
    }
  }
  return true;
}

// A row-major product is the column-major product of the transposes in the other order.
template <class M, class Routine>
void column_major(Routine routine, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<M> a,
                  MatrixView<M> b, double beta, M* c, std::int64_t c_stride) {
  if (trivial(m, n, k, beta, c, c_stride)) return;
  const char form_a = a.trans == Trans::no ? 'N' : 'T', form_b = b.trans == Trans::no ? 'N' : 'T';
  const int rows = narrow(m), columns = narrow(n), depth = narrow(k);
  const int stride_a = narrow(a.stride), stride_b = narrow(b.stride), stride_c = narrow(c_stride);
  const M scale = static_cast<M>(alpha), keep = static_cast<M>(beta);
  routine(&form_b, &form_a, &columns, &rows, &depth, &scale, b.data, &stride_b, a.data, &stride_a, &keep, c, &stride_c);
}

// Packing costs more than it gains for small products of fp32.
template <class T>
bool on_matrix_unit(std::int64_t m, std::int64_t n, std::int64_t k) {
  if (m <= 0 || n <= 0 || k <= 0 || !uses_matrix_unit()) return false;
  if constexpr (std::is_same_v<T, float>) return std::min({m, n, k}) >= 64 && m * n * k >= std::int64_t{1} << 20;
  return std::is_same_v<T, Bf16>;
}

/// c = alpha · op(a) · op(b) + beta · c.
template <class T>
void matrix_unit_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b,
                      double beta, float* c, std::int64_t c_stride) {
  const auto scale = static_cast<float>(alpha), keep = static_cast<float>(beta);
  amx_gemm<T>(
      m, n, k, a, b,
      {.alpha = scale, .beta = keep, .base = beta == 0 ? nullptr : c, .bias = nullptr, .y = c, .stride = c_stride});
}

std::atomic<bool> matrix_unit_wanted{true};

}  // namespace

void want_matrix_unit(bool wanted) { matrix_unit_wanted = wanted; }
bool uses_matrix_unit() { return matrix_unit_wanted && has_matrix_unit(); }

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<float> a, MatrixView<float> b,
          double beta, float* c, std::int64_t c_stride) {
  if (on_matrix_unit<float>(m, n, k)) return matrix_unit_gemm(m, n, k, alpha, a, b, beta, c, c_stride);
  column_major(sgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a, MatrixView<double> b,
          double beta, double* c, std::int64_t c_stride) {
  column_major(dgemm_, m, n, k, alpha, a, b, beta, c, c_stride);
}

namespace {

#ifdef LOCKSTEP_BF16_GEMM
void library_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
                  double beta, float* c, std::int64_t c_stride) {
  constexpr int row_major = 101, plain = 111, transposed = 112;  // CBLAS
  cblas_gemm_bf16bf16f32(row_major, a.trans == Trans::no ? plain : transposed,
                         b.trans == Trans::no ? plain : transposed, narrow(m), narrow(n), narrow(k),
                         static_cast<float>(alpha), &a.data->bits, narrow(a.stride), &b.data->bits, narrow(b.stride),
                         static_cast<float>(beta), c, narrow(c_stride));
}
#else
void library_gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
                  double beta, float* c, std::int64_t c_stride) {
  // Widened copies: exact, and every BLAS has the fp32 product.
  const auto widened = [](const MatrixView<Bf16>& factor, std::int64_t rows, std::int64_t columns) {
    if (factor.trans == Trans::yes) std::swap(rows, columns);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    float* const out = values.data();
    parallel_for(rows, 64, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t column = 0; column < columns; ++column)
          out[row * columns + column] = load(factor.data[row * factor.stride + column]);
      }
    });
    return values;
  };
  const std::vector<float> wide_a = widened(a, m, k), wide_b = widened(b, k, n);
  gemm(m, n, k, alpha, MatrixView<float>{wide_a.data(), a.trans == Trans::no ? k : m, a.trans},
       MatrixView<float>{wide_b.data(), b.trans == Trans::no ? n : k, b.trans}, beta, c, c_stride);
}
#endif

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
          double beta, float* c, std::int64_t c_stride) {
  if (trivial(m, n, k, beta, c, c_stride)) return;
  if (on_matrix_unit<Bf16>(m, n, k)) return matrix_unit_gemm(m, n, k, alpha, a, b, beta, c, c_stride);
  library_gemm(m, n, k, alpha, a, b, beta, c, c_stride);
}

template <class T>
void gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* y,
                  std::int64_t y_stride) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (on_matrix_unit<T>(m, n, k) && k <= amx_longest_depth(m, n))
      return amx_gemm_rounded(m, n, k, a, b, bias, y, y_stride);
    thread_local std::vector<Math<T>> sums;  // kept from product to product
    sums.resize(std::max(sums.size(), static_cast<std::size_t>(m * n)));
    gemm(m, n, k, 1, a, b, 0, sums.data(), n);
    finish_product<T>(sums.data(), n, bias, m, n, y, y_stride);
  } else {
    if constexpr (std::is_same_v<T, float>) {
      if (on_matrix_unit<T>(m, n, k))
        return amx_gemm<T>(m, n, k, a, b,
                           {.alpha = 1, .beta = 0, .base = nullptr, .bias = bias, .y = y, .stride = y_stride});
    }
    gemm(m, n, k, 1, a, b, 0, y, y_stride);
    finish_product<T>(y, y_stride, bias, m, n, y, y_stride);
  }
}

template <class T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Math<T>* base,
              const T* bias, Math<T>* y) {
  if constexpr (std::is_same_v<Math<T>, float>) {
    if (on_matrix_unit<T>(m, n, k))
      return amx_gemm<T>(m, n, k, a, b, {.alpha = 1, .beta = 1, .base = base, .bias = bias, .y = y, .stride = n});
  }
  add_bias<T>(base, bias, m, n, y);
  gemm(m, n, k, 1, a, b, 1, y, n);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void gemm_rounded<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const T*, T*, \
                                std::int64_t);                                                                        \
  template void gemm_add<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const Math<T>*,   \
                            const T*, Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
