// Conversion between fp32 and fp16 (IEEE 754 binary16), with round to nearest, ties to even. It is also correct if the
// processor flushes fp32 denormals, because denormals of fp16 are normal numbers in fp32. The only place outside
// LibTorch that rounds to fp16, except kernels (tensor/kernels/wide.hpp). bf16: quant/bfloat16.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace lockstep {

/// Returns the value of an fp16; exact. There are no branches, so that compilers vectorise loops over it.
[[gnu::always_inline]] inline float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (std::uint32_t{bits} & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
  const std::uint32_t not_finite = magnitude << 13 | 0x7f800000u;
  const float fraction = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(fraction);
  return std::bit_cast<float>(sign | (magnitude < 0x400u ? subnormal : magnitude < 0x7c00u ? normal : not_finite));
}

/// Returns the bits of the fp16 nearest to `value`, ties to even. Values from 65520 on become infinity; NaN stays NaN.
[[gnu::always_inline]] inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Near 0.5 the last place of an fp32 is 2^-24, as for an fp16 below 2^-14: the addition rounds.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - ((127u - 15u) << 23)) >> 13;
  const std::uint32_t not_finite = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return static_cast<std::uint16_t>(sign | (magnitude < 0x38800000u   ? subnormal
                                            : magnitude < 0x477ff000u ? normal
                                                                      : not_finite));
}

/// Converts element by element; spans of equal length.
void from_f16(std::span<const std::uint16_t> bits, std::span<float> values);

}  // namespace lockstep
