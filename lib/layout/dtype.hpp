// Element types: their names, sizes and the spellings of other people's files.
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

int size_of(DType dtype);  // bytes an element
/// Whether it has a fraction: some of its values may be no number.
inline bool is_floating(DType dtype) { return dtype <= DType::f8_e5m2; }
std::string_view name_of(DType dtype);                    // "fp32", "bf16", "int8", …: our files, options and messages
std::optional<DType> parse_dtype(std::string_view name);  // the inverse of name_of

}  // namespace lockstep
