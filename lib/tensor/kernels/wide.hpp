// Sixteen fp32 values at once on processors with AVX-512: loads, rounding stores, and functions of them. For loops that
// compilers vectorise badly; each has a portable form beside it. The instructions: base/vector_intrinsics.hpp.
#pragma once

#include "base/vector_intrinsics.hpp"
#include "tensor/kernels/number.hpp"

#include <cstdint>

namespace lockstep {

#ifdef LOCKSTEP_INTRINSICS

#define LOCKSTEP_WIDE __attribute__((target("avx512f,avx512vl,avx512bw")))

constexpr std::int64_t wide_lanes = 16;

inline bool is_wide() {
  static const bool supported =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  return supported;
}

/// Lanes for the rest of a row: all 16, or the first `left`.
LOCKSTEP_WIDE LOCKSTEP_INLINE __mmask16 lanes_of(std::int64_t left) {
  return static_cast<__mmask16>(left >= wide_lanes ? 0xffffu : (1u << left) - 1);
}

LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 load_wide(const float* from, __mmask16 lanes) {
  return _mm512_maskz_loadu_ps(lanes, from);
}
LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 load_wide(const Bf16* from, __mmask16 lanes) {
  const __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 load_wide(const Fp16* from, __mmask16 lanes) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, from));
}

/// Rounds as store(Bf16&, float) does.
LOCKSTEP_WIDE LOCKSTEP_INLINE __m256i rounded(__m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest =
      _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(nearest, nan, _mm512_set1_epi32(0x7fc0)));
}
// Stores with a mask are slower than plain ones.
LOCKSTEP_WIDE LOCKSTEP_INLINE void store_wide(float* to, __mmask16 lanes, __m512 values) {
  if (lanes == 0xffff) return _mm512_storeu_ps(to, values);
  _mm512_mask_storeu_ps(to, lanes, values);
}
LOCKSTEP_WIDE LOCKSTEP_INLINE void store_wide(Bf16* to, __mmask16 lanes, __m512 values) {
  if (lanes == 0xffff) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded(values));
  _mm256_mask_storeu_epi16(to, lanes, rounded(values));
}

LOCKSTEP_WIDE LOCKSTEP_INLINE void store_wide(Fp16* to, __mmask16 lanes, __m512 values) {
  _mm256_mask_storeu_epi16(to, lanes, _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/// out = the transpose of 16 rows of 16 words of 32 bits.
LOCKSTEP_WIDE LOCKSTEP_INLINE void transpose_wide(const __m512i* in, __m512i* out) {
  __m512i pairs[16], quads[16];
  for (int i = 0; i < 8; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) {
      quads[4 * i + 2 * half] = _mm512_unpacklo_epi64(pairs[4 * i + half], pairs[4 * i + 2 + half]);
      quads[4 * i + 2 * half + 1] = _mm512_unpackhi_epi64(pairs[4 * i + half], pairs[4 * i + 2 + half]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i even_low = _mm512_shuffle_i32x4(quads[i], quads[4 + i], 0x88);
    const __m512i even_high = _mm512_shuffle_i32x4(quads[8 + i], quads[12 + i], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(quads[i], quads[4 + i], 0xdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(quads[8 + i], quads[12 + i], 0xdd);
    out[i] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    out[4 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    out[8 + i] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    out[12 + i] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

/// e^x as 2^n · p(r) with x = n·ln 2 + r, for x that exp_wide has clamped.
LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 bounded_exp_wide(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 r =
      _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x));
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1)));
  return _mm512_scalef_ps(p, n);
}

/// e^x as exp(float): 0 below -87.3, saturates, NaN stays NaN.
LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 exp_wide(__m512 x) {
  // For NaN operands min and max return the second operand.
  const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(88.3f), _mm512_max_ps(_mm512_set1_ps(-87.3f), x));
  const __mmask16 vanishes = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(bounded_exp_wide(bounded), vanishes, _mm512_setzero_ps());
}

/// 1 / (1 + e^-x) to 3 units in the last place.
LOCKSTEP_WIDE LOCKSTEP_INLINE __m512 sigmoid_wide(__m512 x) {
  const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(87.3f), _mm512_max_ps(_mm512_set1_ps(-87.3f), x));
  const __m512 one = _mm512_set1_ps(1);
  const __m512 divisor = _mm512_add_ps(one, bounded_exp_wide(_mm512_sub_ps(_mm512_setzero_ps(), bounded)));
  const __m512 guess = _mm512_rcp14_ps(divisor);
  return _mm512_fmadd_ps(guess, _mm512_fnmadd_ps(divisor, guess, one), guess);  // Newton's step
}

#else

inline bool is_wide() { return false; }

#endif

}  // namespace lockstep
