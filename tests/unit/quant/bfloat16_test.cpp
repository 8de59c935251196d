#include "quant/bfloat16.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

using namespace lockstep;

namespace {
/// The oracle: of the two bf16 around a finite value the nearer one in fp64, the even one in a tie.
std::uint16_t nearest_by_search(float value) {
  const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);  // towards zero
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double lower = std::abs(static_cast<double>(value) - static_cast<double>(from_bf16(below)));
  const double limit = std::isinf(from_bf16(above)) ? 0x1p128 : std::abs(static_cast<double>(from_bf16(above)));
  const double upper = limit - std::abs(static_cast<double>(value));
  if (lower != upper) return lower < upper ? below : above;
  return below % 2 == 0 ? below : above;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(bfloat16)

BOOST_AUTO_TEST_CASE(every_bf16_survives_the_way_to_fp32_and_back) {
  int changed = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from_bf16(static_cast<std::uint16_t>(bits));
    if (!std::isnan(value)) changed += to_bf16(value) != bits;
  }
  BOOST_TEST(changed == 0);
}

BOOST_AUTO_TEST_CASE(rounding_takes_the_nearest_and_the_even_one_in_a_tie) {
  int wrong = 0;
  std::uint32_t bits = 12345;
  for (int i = 0; i < 200000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    for (const std::uint32_t pattern :
         {bits, bits & 0xffff8000u, (bits & 0xffff0000u) | 0x8000u}) {  // any value, and ties
      const float value = std::bit_cast<float>(pattern);
      if (std::isfinite(value)) wrong += to_bf16(value) != nearest_by_search(value);
    }
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(nan_stays_nan_and_what_is_too_large_becomes_infinite) {
  BOOST_TEST(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001u)))));
  BOOST_TEST(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0xffffffffu)))));
  BOOST_TEST(to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  BOOST_TEST(to_bf16(-std::numeric_limits<float>::infinity()) == 0xff80);
}

BOOST_AUTO_TEST_SUITE_END()
