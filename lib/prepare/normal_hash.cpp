#include "prepare/normal_hash.hpp"

#include "unicode/unicode.hpp"
#include "unicode/utf8.hpp"

#include <array>
#include <span>
#include <string>

namespace lockstep {

namespace {

constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
constexpr std::uint64_t first_point = 0x0A5D'73C9'18E4'B26F;  // any two below the prime
constexpr std::uint64_t second_point = 0x13B8'2E5F'C07A'964D;

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  const Wide wide = static_cast<Wide>(a) * b;
  const std::uint64_t sum = (static_cast<std::uint64_t>(wide) & prime) + static_cast<std::uint64_t>(wide >> 61);
  return sum >= prime ? sum - prime : sum;
}

constexpr std::uint64_t sum(std::uint64_t a, std::uint64_t b) { return a + b >= prime ? a + b - prime : a + b; }

std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = product(result, base);
    base = product(base, base);
  }
  return result;
}

}  // namespace

NormalHash::NormalHash(std::string_view text, bool caseless) {
  std::string lower;
  if (caseless) text = lower = lower_case(text);
  bool space = false;  // stands before what comes next
  const auto put = [&](unsigned char byte) {
    first_ = sum(product(first_, first_point), byte + std::uint64_t{1});
    second_ = sum(product(second_, second_point), byte + std::uint64_t{1});
    ++bytes_;
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (is_white_space(next_code_point(text, at))) {
      if (bytes_ == 0) begins_with_space_ = true;
      space = true;
      continue;
    }
    if (space && bytes_ > 0) put(' ');
    space = false;
    for (std::size_t i = begin; i < at; ++i) put(static_cast<unsigned char>(text[i]));
  }
  ends_with_space_ = space;
}

void NormalHash::append(const NormalHash& more) {
  first_ = sum(product(first_, power(first_point, more.bytes_)), more.first_);
  second_ = sum(product(second_, power(second_point, more.bytes_)), more.second_);
  bytes_ += more.bytes_;
}

void NormalHash::add(const NormalHash& more) {
  if (more.bytes_ == 0) {
    const bool space = more.begins_with_space_;
    ends_with_space_ = ends_with_space_ || space;
    if (bytes_ == 0) begins_with_space_ = begins_with_space_ || space;
    return;
  }
  if (bytes_ == 0) {
    const bool space = begins_with_space_;
    *this = more;
    begins_with_space_ = begins_with_space_ || space;
    return;
  }
  if (ends_with_space_ || more.begins_with_space_) {
    static const NormalHash space = [] {
      NormalHash one;
      one.first_ = one.second_ = ' ' + std::uint64_t{1};
      one.bytes_ = 1;
      return one;
    }();
    append(space);
  }
  append(more);
  ends_with_space_ = more.ends_with_space_;
}

Hash128 NormalHash::digest() const {
  const std::array<std::uint64_t, 3> all{first_, second_, bytes_};
  return hash128(std::as_bytes(std::span(all)));
}

}  // namespace lockstep
