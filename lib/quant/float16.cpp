#include "quant/float16.hpp"

#include "base/error.hpp"

#include <bit>

namespace lockstep {

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);  // infinity, NaN
  if (exponent == 0) {                                                                     // subnormal: fraction · 2⁻²⁴
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

void from_f16(std::span<const std::uint16_t> bits, std::span<float> values) {
  invariant(values.size() == bits.size(), "fp16 conversion of spans of equal length");
  for (std::size_t i = 0; i < bits.size(); ++i) values[i] = from_f16(bits[i]);
}

}  // namespace lockstep
