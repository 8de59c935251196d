// Conversion between fp32 and bf16 (the upper half of an fp32), with round to nearest, ties to even. The only place
// outside LibTorch that rounds to bf16, except kernels (tensor/kernels/number.hpp). fp16: quant/float16.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace lockstep {

/// Returns the bits of the bf16 nearest to `value`, ties to even. Values beyond the range become infinity; NaN stays
/// NaN.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40u);  // a NaN must not round to infinity
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// Returns the value of a bf16; exact.
inline float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// Returns the bf16 nearest to `value`, as fp32.
inline float round_to_bf16(float value) { return from_bf16(to_bf16(value)); }

/// Converts element by element; spans of equal length.
void to_bf16(std::span<const float> values, std::span<std::uint16_t> bits);
void from_bf16(std::span<const std::uint16_t> bits, std::span<float> values);

}  // namespace lockstep
