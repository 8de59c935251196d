// The products of the kernel table (tensor/gemm.hpp) on a GPU.
#pragma once

#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep::cuda {

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b, double beta,
          Math<T>* c, std::int64_t c_stride);
/// y (m, n) = alpha · a · b + beta · base, with base (m, n); rows of both lie one behind the other. Not of the table.
template <class T>
void gemm_onto(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, MatrixView<T> a, MatrixView<T> b,
               double beta, const Math<T>* base, Math<T>* y);
template <class T>
void gemm_scaled(std::int64_t m, std::int64_t n, std::int64_t k, const double* alpha, MatrixView<T> a, MatrixView<T> b,
                 double beta, Math<T>* c, std::int64_t c_stride);
template <class T>
void gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const T* bias, T* y,
                  std::int64_t y_stride);
template <class T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b, const Math<T>* base,
              const T* bias, Math<T>* y);

}  // namespace lockstep::cuda
