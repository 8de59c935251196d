// Products of bf16 matrices on the processor's matrix unit (Intel AMX): both factors are packed into tiles, sums stay in fp32 registers, and
// what becomes of a finished block (scaled, added, rounded, with a bias) happens while it is in the cache. Large results that replace what was
// there bypass the cache. Where it is used: tensor/gemm.cpp. Instructions: Intel 64 and IA-32 Architectures Optimization Reference Manual,
// chapter on Intel AMX.
#pragma once

#include "tensor/kernels/factor.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

/// True if this process may use the matrix unit; the first call asks the system for it. The functions below need it.
bool has_matrix_unit();

/// y (m, n) fp32 = alpha · op(a) · op(b) + beta · base (m, n) + bias (n). `base` may be y, or nullptr for none; `bias` may be nullptr.
struct AmxSum {
  float alpha = 1, beta = 0;
  const float* base = nullptr;   // rows of `stride`, as y
  const Bf16* bias = nullptr;
  float* y = nullptr;
  std::int64_t stride = 0;
};
void amx_gemm(std::int64_t m, std::int64_t n, std::int64_t k, Factor<Bf16> a, Factor<Bf16> b, const AmxSum& sum);

/// y (m, n) bf16 = op(a) · op(b) + bias (n, or nullptr), rounded once. The depth k is at most amx_longest_depth(m, n).
void amx_gemm_rounded(std::int64_t m, std::int64_t n, std::int64_t k, Factor<Bf16> a, Factor<Bf16> b, const Bf16* bias, Bf16* y,
                      std::int64_t y_stride);
/// Up to here sums need no memory but the cache.
std::int64_t amx_longest_depth(std::int64_t m, std::int64_t n);

}  // namespace lockstep
