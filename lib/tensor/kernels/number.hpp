// Number types of kernels: bf16 and fp16 as storage types, the type for arithmetic, and exp and tanh that compilers can
// vectorise. Kernels know raw pointers and sizes only; no LibTorch.
#pragma once

#include "base/vector_clones.hpp"
#include "quant/float16.hpp"

#include <bit>
#include <cmath>
#include <cstdint>

#define LOCKSTEP_INLINE inline __attribute__((always_inline))

namespace lockstep {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

template <class T>
struct MathOf {
  using Type = T;
};
template <>
struct MathOf<Bf16> {
  using Type = float;
};
template <>
struct MathOf<Fp16> {
  using Type = float;
};
/// The type of computations, sums and gradients for data stored as T: fp32 for bf16 and fp16.
template <class T>
using Math = typename MathOf<T>::Type;

LOCKSTEP_INLINE float load(float value) { return value; }
LOCKSTEP_INLINE double load(double value) { return value; }
LOCKSTEP_INLINE float load(Bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }
LOCKSTEP_INLINE float load(Fp16 value) { return from_f16(value.bits); }

LOCKSTEP_INLINE void store(float& target, float value) { target = value; }
LOCKSTEP_INLINE void store(double& target, double value) { target = value; }
/// Rounds to nearest even; NaN stays NaN.
LOCKSTEP_INLINE void store(Bf16& target, float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  target.bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

LOCKSTEP_INLINE void store(Fp16& target, float value) { target.bits = to_f16(value); }

/// e^x to 2 units in the last place, without branches; underflows to 0 below -87 and saturates near the largest float.
/// NaN stays NaN.
LOCKSTEP_INLINE float exp(float x) {
  const float clamped = x < -87.3f ? -87.3f : (x > 88.3f ? 88.3f : x);
  constexpr float magic = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
  const float n = (clamped * 1.44269504088896341f + magic) - magic;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = p * r * r + r + 1.0f;
  const std::int32_t exponent = (static_cast<std::int32_t>(n) + 127) << 23;
  const float result = e * std::bit_cast<float>(exponent);
  return x < -87.3f ? 0.0f : result;
}
LOCKSTEP_INLINE double exp(double x) { return std::exp(x); }

LOCKSTEP_INLINE float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (exp(2.0f * x) + 1.0f); }
LOCKSTEP_INLINE double hyperbolic_tangent(double x) { return std::tanh(x); }

}  // namespace lockstep
