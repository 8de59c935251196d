// Products of bf16 and fp32 matrices by the vectors of AVX-512, on the calling thread, for processors that the BLAS of
// LibTorch was not written for: the right factor is packed in panels that stay in a core's own cache, rows of the left
// one are read where they are, sums stay in registers, and what becomes of a finished tile (scaled, added, rounded,
// with a bias) happens before it is stored. Large results that replace what was there bypass the cache. Where it is
// used: tensor/gemm.cpp.
#pragma once

#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// True if this is a processor for which the functions below are the fastest way; they need it.
bool has_vector_gemm();

/// y (m, n) as `sum` says, from op(a) (m, k) · op(b) (k, n).
template <class T>
void vector_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
                 const ProductSum<T>& sum);

/// y (m, n) bf16 = op(a) · op(b) + bias (n, or nullptr), rounded once.
void vector_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b,
                         const Bf16* bias, Bf16* y, std::int64_t y_stride);

}  // namespace lockstep
