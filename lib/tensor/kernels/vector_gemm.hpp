// Products of bf16 and fp32 matrices with AVX-512, on the calling thread, for processors that LibTorch's BLAS was not
// written for. The right factor is packed in panels that stay in a core's own cache; rows of the left one are read in
// place; sums stay in registers. A finished tile is scaled, added, rounded and given its bias before it is stored.
// Large results that overwrite old values bypass the cache. Used by: tensor/gemm.cpp.
#pragma once

#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// True if the functions below are the fastest choice on this processor. They may only be called then.
bool has_vector_gemm();

/// Computes op(a) (m, k) · op(b) (k, n) and stores y (m, n) as described by `sum`.
template <class T>
void vector_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                 const ProductSum<T>& sum);

/// y (m, n) bf16 = op(a) · op(b) + bias (n, or nullptr), rounded once.
void vector_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b,
                         const Bf16* bias, Bf16* y, std::int64_t y_stride);

}  // namespace lockstep
