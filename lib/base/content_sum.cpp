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

std::uint64_t reduced(std::uint64_t value) {
  value = (value & prime) + (value >> 61);
  return value >= prime ? value - prime : value;
}

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide wide = static_cast<Wide>(a) * b;
  return reduced((static_cast<std::uint64_t>(wide) & prime) + static_cast<std::uint64_t>(wide >> 61));
}

std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1, base = product(base, base)) {
    if ((exponent & 1) != 0) result = product(result, base);
  }
  return result;
}

}  // namespace

std::uint64_t content_sum(std::span<const std::byte> part, std::uint64_t offset) {
  const std::uint64_t first_word = offset / word_bytes;
  const std::uint64_t end = offset + part.size();
  std::uint64_t sum = 0;
  for (std::uint64_t word = (end + word_bytes - 1) / word_bytes; word-- > first_word;) {  // Horner's rule
    const std::uint64_t from = std::max(offset, word * word_bytes);
    const std::uint64_t to = std::min(end, (word + 1) * word_bytes);
    std::uint64_t value = 0;
    std::memcpy(reinterpret_cast<std::byte*>(&value) + from % word_bytes, part.data() + (from - offset), to - from);
    sum = reduced(product(sum, point) + value);
  }
  return product(sum, power(point, first_word));
}

std::uint64_t content_sum(std::string_view part, std::uint64_t offset) {
  return content_sum(std::as_bytes(std::span(part)), offset);
}

std::uint64_t add_content_sums(std::uint64_t a, std::uint64_t b) { return reduced(a + b); }

}  // namespace lockstep
