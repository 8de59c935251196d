// Products of a few rows with a matrix, as text generation has them: y (m, n) = op(a) (m, k) · op(b) (k, n). Their
// speed is limited by the memory that holds the right factor. It is read once, in the order in which it is stored, and
// is not packed. Threads divide the columns of y. An element of y is summed by one thread, in an order that depends on
// k and on the form of b alone: its bits depend neither on the number of threads nor on the other rows. Products of
// more rows: tensor/gemm.hpp. Used by: tensor/gemm.cpp.
#pragma once

#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// True if the functions below are the fastest choice for these sizes. They may only be called then.
bool has_few_rows(std::int64_t m, std::int64_t n, std::int64_t k);

/// The loops of a product. `wide` are those with AVX-512 intrinsics; processors without AVX-512 use `portable` instead.
enum class Loops { wide, portable };

/// Computes op(a) · op(b) with sums in fp32 and stores y as described by `sum`. T: float, Bf16, Fp16.
template <class T>
void few_rows_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                   const ProductSum<T>& sum, Loops loops);

/// y (m, n) = op(a) · op(b) + bias (n, or nullptr), summed in fp32 and rounded once. T: Bf16, Fp16.
template <class T>
void few_rows_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                           const T* bias, T* y, std::int64_t y_stride, Loops loops);

}  // namespace lockstep
