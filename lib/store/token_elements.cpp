#include "store/token_elements.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {

template <class Element>
IdRange copy_elements(std::span<const std::byte> bytes, std::span<std::int32_t> out) {
  const std::size_t count = bytes.size() / sizeof(Element);
  Element lowest = std::numeric_limits<Element>::max(), highest = std::numeric_limits<Element>::min();
  for (std::size_t i = 0; i < count; ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);
    lowest = std::min(lowest, element);
    highest = std::max(highest, element);
    out[i] = static_cast<std::int32_t>(element);
  }
  if (count == 0) return {};
  const auto in_range = [](Element element) {  // no vocabulary is as large as what is cut off
    return std::in_range<std::int64_t>(element) ? static_cast<std::int64_t>(element)
                                                : std::numeric_limits<std::int64_t>::max();
  };
  return {in_range(lowest), in_range(highest)};
}

}  // namespace

void IdRange::add(const IdRange& other) {
  lowest = std::min(lowest, other.lowest);
  highest = std::max(highest, other.highest);
}

std::optional<std::int64_t> IdRange::outside(std::int64_t vocabulary) const {
  if (lowest > highest) return std::nullopt;
  if (lowest < 0) return lowest;
  if (highest >= vocabulary) return highest;
  return std::nullopt;
}

bool can_hold_tokens(DType dtype) {
  switch (dtype) {
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u64:
    case DType::u32:
    case DType::u16:
    case DType::u8: return true;
    case DType::f64:
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::boolean: return false;
  }
  return false;
}

IdRange copy_ids(std::span<const std::byte> bytes, DType dtype, std::span<std::int32_t> out) {
  switch (dtype) {
    case DType::i64: return copy_elements<std::int64_t>(bytes, out);
    case DType::i32: return copy_elements<std::int32_t>(bytes, out);
    case DType::i16: return copy_elements<std::int16_t>(bytes, out);
    case DType::i8: return copy_elements<std::int8_t>(bytes, out);
    case DType::u64: return copy_elements<std::uint64_t>(bytes, out);
    case DType::u32: return copy_elements<std::uint32_t>(bytes, out);
    case DType::u16: return copy_elements<std::uint16_t>(bytes, out);
    case DType::u8: return copy_elements<std::uint8_t>(bytes, out);
    case DType::f64:
    case DType::f32:
    case DType::bf16:
    case DType::f16:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::boolean: break;
  }
  fail(ExitCode::bug, "tokens cannot have the type {}", name_of(dtype));
}

}  // namespace lockstep
