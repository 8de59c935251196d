// Matrix products on row-major data with sums in fp32 or fp64: c = α·op(a)·op(b) + β·c. They use all threads, or one
// inside a parallel region. Needs no LibTorch headers. The implementations are LibTorch's BLAS; the processor's matrix
// unit for bf16, and for fp32 in three parts (tensor/kernels/amx_gemm.hpp); AVX-512 kernels for fp32 and bf16 on
// processors for which the BLAS is slower (tensor/kernels/vector_gemm.hpp); and kernels for products of at most eight
// rows, except in fp64 (tensor/kernels/few_rows_gemm.hpp). fp16 with more rows is correct but not fast: its factors are
// widened part by part and multiplied as fp32.
#pragma once

#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// c (m, n; c_stride between rows) = alpha · op(a) (m, k) · op(b) (k, n) + beta · c. With beta = 0, c is not read.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<float> a, MatrixView<float> b,
          double beta, float* c, std::int64_t c_stride);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<double> a, MatrixView<double> b,
          double beta, double* c, std::int64_t c_stride);
/// Products of bf16 or fp16 values, exact in fp32, are summed in fp32.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Bf16> a, MatrixView<Bf16> b,
          double beta, float* c, std::int64_t c_stride);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<Fp16> a, MatrixView<Fp16> b,
          double beta, float* c, std::int64_t c_stride);

/// Multiplies likewise, with the value that `alpha` points to.
template <class T>
void gemm_scaled(std::int64_t m, std::int64_t n, std::int64_t k, const double* alpha, MatrixView<T> a, MatrixView<T> b,
                 double beta, Math<T>* c, std::int64_t c_stride) {
  gemm(m, n, k, *alpha, a, b, beta, c, c_stride);
}

/// y (m, n; y_stride between rows) = op(a) · op(b) + bias (n, or nullptr): summed as above, then rounded to T once.
template <class T>
void gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* y,
                  std::int64_t y_stride);

/// y (m, n) = op(a) · op(b) + base (m, n) + bias (n, or nullptr), in the type of the sums. y and base are contiguous.
template <class T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Math<T>* base,
              const T* bias, Math<T>* y);

/// Switches use of the processor's matrix unit on or off (default: on). Not while products run.
void want_matrix_unit(bool wanted);
bool uses_matrix_unit();
/// Switches use of the AVX-512 kernels on or off (default: on), to compare them with the BLAS and with portable loops.
void enable_vectors(bool wanted);
bool uses_vectors();

/// The implementation of bf16 products, except those of few rows, in increasing order of scratch memory.
enum class Multiplier { vectors, matrix_unit, library };
Multiplier multiplier();
/// Scratch memory of an fp16 gemm for widened factors and sums, at most.
constexpr std::int64_t widened_side = 128, widened_depth = 1024;
constexpr std::int64_t widening_scratch_bytes =
    (2 * widened_side * widened_depth + widened_side * widened_side) * static_cast<std::int64_t>(sizeof(float));
/// Scratch bytes that gemm_rounded of bf16 keeps from product to product for its sums; the largest product decides.
std::int64_t rounding_scratch_bytes(std::int64_t m, std::int64_t n, std::int64_t k, Multiplier by);

}  // namespace lockstep
