// Element types, their names and sizes. Names in other file formats belong to their readers, for instance
// exchange/safetensors_header.cpp and store/hdf5.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class DType : std::uint8_t {
  f64,
  f32,
  bf16,
  f16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean
};

int size_of(DType dtype);  // bytes per element
/// Whether it is a floating-point type, whose values may be NaN.
inline bool is_floating(DType dtype) { return dtype <= DType::f8_e5m2; }
/// The types of weights and gradients.
enum class WeightType : std::uint8_t { f64, f32, bf16, f16 };
/// The element type as one of weights; nothing if it is none.
constexpr std::optional<WeightType> weight_type(DType dtype) {
  static_assert(static_cast<int>(DType::f16) == static_cast<int>(WeightType::f16));  // the same order
  return dtype <= DType::f16 ? std::optional(static_cast<WeightType>(dtype)) : std::nullopt;
}
std::string_view name_of(DType dtype);                    // "fp32", "bf16", "int8", …: in our files, options, messages
std::optional<DType> parse_dtype(std::string_view name);  // the inverse of name_of

}  // namespace lockstep
