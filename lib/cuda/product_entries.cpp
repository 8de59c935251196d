#include "cuda/product_entries.hpp"

#include "base/error.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/kernels/product_arguments.hpp"
#include "cuda/product_call.hpp"
#include "cuda/stream.hpp"

#include <type_traits>

namespace lockstep::cuda {

namespace {

template <class T>
constexpr DType type_of_values = DType::f32;
template <>
constexpr DType type_of_values<double> = DType::f64;
template <>
constexpr DType type_of_values<Bf16> = DType::bf16;
template <>
constexpr DType type_of_values<Fp16> = DType::f16;

template <class T>
Factor factor(const MatrixView<T>& view) {
  return {.data = view.data, .type = type_of_values<T>, .stride = view.stride, .trans = view.trans};
}

/// y (m, n), rows of `stride`, to which nothing is added yet.
template <class T, class Y>
Product product_of(std::int64_t m, std::int64_t n, std::int64_t k, const MatrixView<T>& a, const MatrixView<T>& b, Y* y,
                   std::int64_t stride) {
  return {.m = m, .n = n, .k = k, .a = factor(a), .b = factor(b), .y = y, .type = type_of_values<Y>, .stride = stride};
}

template <class Y>
void add(Product& product, double beta, const Y* base, std::int64_t stride) {
  product.beta = beta;
  product.base = base;
  product.base_stride = stride;
}

/// A product over no terms: cublasLt takes none.
template <class Y>
void scale_alone(std::int64_t m, std::int64_t n, double beta, Y* y, std::int64_t stride) {
  if (beta == 1) return;
  invariant(beta == 0, "the sum over no terms replaces a matrix or is added to it");
  const auto bytes_of = [](std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(Y); };
  call("cannot clear a matrix", [&] {
    return cudaMemset2DAsync(y, bytes_of(stride), 0, bytes_of(n), static_cast<std::size_t>(m), compute_stream());
  });
}

}  // namespace

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b, double beta,
          Math<T>* c, std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_alone(m, n, beta, c, c_stride);
  Product product = product_of(m, n, k, a, b, c, c_stride);
  product.alpha = alpha;
  add(product, beta, c, c_stride);
  multiply(product);
}

template <class T>
void gemm_onto(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b,
               double beta, const Math<T>* base, Math<T>* y) {
  Product product = product_of(m, n, k, a, b, y, n);
  product.alpha = alpha;
  add(product, beta, base, n);
  multiply(product);
}

template <class T>
void gemm_scaled(std::int64_t m, std::int64_t n, std::int64_t k, const double* alpha, MatrixView<T> a, MatrixView<T> b,
                 double beta, Math<T>* c, std::int64_t c_stride) {
  if (m == 0 || n == 0) return;
  if (k == 0) return scale_alone(m, n, beta, c, c_stride);
  Product product = product_of(m, n, k, a, b, c, c_stride);
  auto* const factors = static_cast<Math<T>*>(kernel_scratch(2 * sizeof(Math<T>)));
  cuda::product_factors(alpha, beta, factors);
  product.factors = factors;
  if (beta != 0) add(product, beta, c, c_stride);
  multiply(product);
}

template <class T>
void gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* y,
                  std::int64_t y_stride) {
  if (m == 0 || n == 0) return;
  invariant(k > 0, "a linear layer has channels");
  Product product = product_of(m, n, k, a, b, y, y_stride);
  product.bias = bias;
  product.bias_type = type_of_values<T>;
  multiply(product);
}

template <class T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Math<T>* base,
              const T* bias, Math<T>* y) {
  if (m == 0 || n == 0) return;
  invariant(k > 0, "a linear layer has channels");
  Product product = product_of(m, n, k, a, b, y, n);
  add(product, 1, base, n);
  product.bias_type = type_of_values<Math<T>>;
  product.bias = bias;
  if constexpr (!std::is_same_v<T, Math<T>>) {
    if (bias != nullptr) {
      auto* const wide = static_cast<float*>(kernel_scratch(static_cast<std::size_t>(n) * sizeof(float)));
      cuda::widen_row(bias, n, wide);
      product.bias = wide;
    }
  }
  multiply(product);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                       \
  template void gemm<T>(std::int64_t, std::int64_t, std::int64_t, double, MatrixView<T>, MatrixView<T>, double,       \
                        Math<T>*, std::int64_t);                                                                      \
  template void gemm_onto<T>(std::int64_t, std::int64_t, std::int64_t, double, MatrixView<T>, MatrixView<T>, double,  \
                             const Math<T>*, Math<T>*);                                                               \
  template void gemm_scaled<T>(std::int64_t, std::int64_t, std::int64_t, const double*, MatrixView<T>, MatrixView<T>, \
                               double, Math<T>*, std::int64_t);                                                       \
  template void gemm_rounded<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const T*, T*, \
                                std::int64_t);                                                                        \
  template void gemm_add<T>(std::int64_t, std::int64_t, std::int64_t, MatrixView<T>, MatrixView<T>, const Math<T>*,   \
                            const T*, Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
