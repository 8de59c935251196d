#include "store/element_values.hpp"

#include "base/load.hpp"
#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep {

namespace {

// A sign, 7 - mantissa exponent bits and `mantissa` mantissa bits; what the largest exponent means beyond numbers is up
// to the caller.
double from_f8(std::uint8_t bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  const double sign = (bits & 0x80) != 0 ? -1.0 : 1.0;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa);
}

double from_e4m3(std::uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? std::numeric_limits<double>::quiet_NaN() : from_f8(bits, 3, 7);
}

double from_e5m2(std::uint8_t bits) {
  if ((bits & 0x7c) != 0x7c) return from_f8(bits, 2, 15);
  if ((bits & 0x03) != 0) return std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x80) != 0 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

}  // namespace

double value_of(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f64: return load<double>(bytes);
    case DType::f32: return static_cast<double>(load<float>(bytes));
    case DType::bf16: return static_cast<double>(from_bf16(load<std::uint16_t>(bytes)));
    case DType::f16: return static_cast<double>(from_f16(load<std::uint16_t>(bytes)));
    case DType::f8_e4m3: return from_e4m3(load<std::uint8_t>(bytes));
    case DType::f8_e5m2: return from_e5m2(load<std::uint8_t>(bytes));
    case DType::i64: return static_cast<double>(load<std::int64_t>(bytes));
    case DType::i32: return load<std::int32_t>(bytes);
    case DType::i16: return load<std::int16_t>(bytes);
    case DType::i8: return load<std::int8_t>(bytes);
    case DType::u64: return static_cast<double>(load<std::uint64_t>(bytes));
    case DType::u32: return load<std::uint32_t>(bytes);
    case DType::u16: return load<std::uint16_t>(bytes);
    case DType::u8:
    case DType::boolean: break;
  }
  return load<std::uint8_t>(bytes);
}

}  // namespace lockstep
