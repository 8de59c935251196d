// Matrix products on row-major data, adding into fp32 or fp64: c = α·op(a)·op(b) + β·c. Uses all threads, one inside a parallel region.
// Needs no LibTorch headers; the library behind it is the BLAS that LibTorch carries.
#pragma once

#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

enum class Form { plain, transposed };

/// A factor as stored: rows of `stride` elements. Form::transposed: the product takes the transpose of what is stored.
template <class T>
struct Factor {
  const T* data;
  std::int64_t stride;
  Form form = Form::plain;
};

/// c (m, n; c_stride between rows) = alpha · op(a) (m, k) · op(b) (k, n) + beta · c. With beta = 0, c is not read.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Factor<float> a, Factor<float> b, double beta, float* c,
          std::int64_t c_stride);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Factor<double> a, Factor<double> b, double beta, double* c,
          std::int64_t c_stride);
/// Products of bf16 values, exact in fp32, are summed in fp32.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Factor<Bf16> a, Factor<Bf16> b, double beta, float* c,
          std::int64_t c_stride);

}  // namespace lockstep
