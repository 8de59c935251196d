#include "reshard/cast.hpp"

#include "base/error.hpp"
#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace lockstep {

namespace {

/// The fp32 nearest to `value` towards zero, its last bit set where that is not exact. Rounded again to a type of fewer
/// bits it gives what one rounding of `value` gives (Boldo and Melquiond, "When double rounding is odd", 2005).
float to_odd(double value) {
  const auto rounded = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(rounded) == value) return rounded;
  auto bits = std::bit_cast<std::uint32_t>(rounded);
  if (std::abs(static_cast<double>(rounded)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class T>
T element(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

double value_at(DType type, std::span<const std::byte> bytes, std::size_t index) {
  if (type == DType::f64) return element<double>(bytes, index);
  if (type == DType::f32) return static_cast<double>(element<float>(bytes, index));
  const auto bits = element<std::uint16_t>(bytes, index);
  return static_cast<double>(type == DType::bf16 ? from_bf16(bits) : from_f16(bits));
}

template <class T>
void put(std::span<std::byte> out, std::size_t index, T value) {
  std::memcpy(out.data() + index * sizeof value, &value, sizeof value);
}

void put_value(DType type, std::span<std::byte> out, std::size_t index, double value) {
  if (type == DType::f64) return put(out, index, value);
  if (type == DType::f32) return put(out, index, static_cast<float>(value));
  put(out, index, type == DType::bf16 ? to_bf16(to_odd(value)) : to_f16(to_odd(value)));
}

bool is_castable(DType type) {
  return type == DType::f64 || type == DType::f32 || type == DType::bf16 || type == DType::f16;
}

}  // namespace

void cast(DType from, std::span<const std::byte> values, DType to, std::span<std::byte> out) {
  const auto wide = static_cast<std::size_t>(size_of(from)), narrow = static_cast<std::size_t>(size_of(to));
  invariant(is_castable(from) && is_castable(to) && values.size() / wide == out.size() / narrow,
            "weights are cast between floating types, element by element");
  for (std::size_t i = 0; i < out.size() / narrow; ++i) put_value(to, out, i, value_at(from, values, i));
}

}  // namespace lockstep
