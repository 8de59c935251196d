// Products of bf16 and fp32 matrices on the processor's matrix unit (Intel AMX). Both factors are packed into tiles and
// sums stay in fp32 registers. A finished block is scaled, added, rounded and given its bias while it is in the cache.
// Large results that overwrite old values bypass the cache. Used by: tensor/gemm.cpp. Instructions: Intel 64 and IA-32
// Architectures Optimization Reference Manual, chapter on Intel AMX.
//
// An fp32 value is exactly the sum of three bf16 values. The product of two fp32 values is the sum of nine products of
// their parts, and the six largest are computed (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence
// Datatype For Higher-Precision Computations, ARITH 2019). The omitted ones are below 2^-24 of the product; a test
// shows that the error is smaller than that of the usual fp32 product. Infinite elements give NaN, and parts below the
// smallest normal number (elements below 2^-110) count as 0.
#pragma once

#include "tensor/kernels/matrix_view.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// True if this process may use the matrix unit; the first call asks the system for permission. The functions below
/// need it.
bool has_matrix_unit();

/// Computes op(a) (m, k) · op(b) (k, n) and stores y (m, n) as described by `sum`.
template <class T>
void amx_gemm(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<T> a, MatrixView<T> b,
              const ProductSum<T>& sum);

/// y (m, n) bf16 = op(a) · op(b) + bias (n, or nullptr), rounded once. The depth k is at most amx_longest_depth(m, n).
void amx_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, MatrixView<Bf16> a, MatrixView<Bf16> b,
                      const Bf16* bias, Bf16* y, std::int64_t y_stride);
/// The largest depth k for which sums need no memory but the cache.
std::int64_t amx_longest_depth(std::int64_t m, std::int64_t n);

}  // namespace lockstep
