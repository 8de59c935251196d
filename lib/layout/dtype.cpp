#include "layout/dtype.hpp"

#include <array>

namespace lockstep {

namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  int bytes;
};

constexpr std::array<Entry, 15> entries{{
    {DType::f64, "fp64", 8},
    {DType::f32, "fp32", 4},
    {DType::bf16, "bf16", 2},
    {DType::f16, "fp16", 2},
    {DType::f8_e4m3, "fp8_e4m3", 1},
    {DType::f8_e5m2, "fp8_e5m2", 1},
    {DType::i64, "int64", 8},
    {DType::i32, "int32", 4},
    {DType::i16, "int16", 2},
    {DType::i8, "int8", 1},
    {DType::u64, "uint64", 8},
    {DType::u32, "uint32", 4},
    {DType::u16, "uint16", 2},
    {DType::u8, "uint8", 1},
    {DType::boolean, "bool", 1},
}};

const Entry& entry_of(DType dtype) { return entries[static_cast<std::size_t>(dtype)]; }

constexpr bool entries_are_in_order() {
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (static_cast<std::size_t>(entries[i].dtype) != i) return false;
  return true;
}
static_assert(entries_are_in_order());

}  // namespace

int size_of(DType dtype) { return entry_of(dtype).bytes; }

std::string_view name_of(DType dtype) { return entry_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Entry& entry : entries)
    if (entry.name == name) return entry.dtype;
  return std::nullopt;
}

}  // namespace lockstep
