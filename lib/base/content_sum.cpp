#include "base/content_sum.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep {

namespace {

// The content is a polynomial whose coefficients are its words of 7 bytes, all below the prime, taken at a fixed point
// modulo it. A word that is cut is the sum of its parts, each with zeros for the other.
constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t point = 0x0B4F'1D3A'9C5E'6E2B;  // any below the prime
constexpr std::uint64_t word_bytes = 7;

__extension__ using UInt128 = unsigned __int128;

constexpr std::uint64_t reduced(std::uint64_t value) {
  value = (value & prime) + (value >> 61);
  return value >= prime ? value - prime : value;
}

// Of a value below 2^122.
constexpr std::uint64_t reduced_wide(UInt128 value) {
  return reduced((static_cast<std::uint64_t>(value) & prime) + static_cast<std::uint64_t>(value >> 61));
}

constexpr std::uint64_t product(std::uint64_t a, std::uint64_t b) { return reduced_wide(static_cast<UInt128>(a) * b); }

std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base = product(base, base)) {
    if ((exponent & 1) != 0) result = product(result, base);
  }
  return result;
}

// What a part that begins at `offset` has of a word.
std::uint64_t cut_word(std::span<const std::byte> part, std::uint64_t offset, std::uint64_t word) {
  const std::uint64_t from = std::max(offset, word * word_bytes);
  const std::uint64_t to = std::min(offset + part.size(), (word + 1) * word_bytes);
  std::uint64_t value = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&value) + from % word_bytes, part.data() + (from - offset), to - from);
  return value;
}

// A word behind which the part has another byte.
std::uint64_t whole_word(const std::byte* at) {
  constexpr std::uint64_t mask = (std::uint64_t{1} << 8 * word_bytes) - 1;
  std::uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value & mask;
}

}  // namespace

std::uint64_t content_sum(std::span<const std::byte> part, std::uint64_t offset) {
  if (part.empty()) return 0;
  constexpr std::uint64_t second = product(point, point);
  constexpr std::uint64_t third = product(second, point);
  constexpr std::uint64_t fourth = product(third, point);
  const std::uint64_t first_word = offset / word_bytes;
  const std::uint64_t first_whole = (offset + word_bytes - 1) / word_bytes;
  const std::uint64_t end = offset + part.size();
  std::uint64_t word = (end + word_bytes - 1) / word_bytes;  // Horner's rule, from the last one down
  std::uint64_t sum = 0;
  const auto take_one = [&] { sum = reduced(product(sum, point) + cut_word(part, offset, --word)); };
  while (word > first_word && word * word_bytes + 1 > end) take_one();
  for (; word >= first_whole + 4; word -= 4) {  // one division for four
    const std::byte* const at = part.data() + ((word - 4) * word_bytes - offset);
    sum = reduced_wide(static_cast<UInt128>(sum) * fourth +
                       static_cast<UInt128>(whole_word(at + 3 * word_bytes)) * third +
                       static_cast<UInt128>(whole_word(at + 2 * word_bytes)) * second +
                       static_cast<UInt128>(whole_word(at + word_bytes)) * point + whole_word(at));
  }
  while (word > first_word) take_one();
  return product(sum, power(point, first_word));
}

std::uint64_t content_sum(std::string_view part, std::uint64_t offset) {
  return content_sum(std::as_bytes(std::span(part)), offset);
}

std::uint64_t add_content_sums(std::uint64_t a, std::uint64_t b) { return reduced(a + b); }

}  // namespace lockstep
