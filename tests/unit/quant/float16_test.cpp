#include "quant/float16.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(float16)

BOOST_AUTO_TEST_CASE(every_fp16_has_the_value_of_its_sign_exponent_and_fraction) {
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const int exponent = bits >> 10 & 31;
    const double fraction = (bits & 1023) / 1024.0;
    const double sign = bits < 0x8000 ? 1 : -1;
    const float value = from_f16(static_cast<std::uint16_t>(bits));
    if (exponent == 31)
      wrong += fraction == 0 ? value != sign * INFINITY : !std::isnan(value);
    else
      wrong += static_cast<double>(value) !=
               sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
  }
  BOOST_TEST(wrong == 0);
  BOOST_TEST(std::signbit(from_f16(0x8000)));
}

BOOST_AUTO_TEST_CASE(every_fp16_is_its_own_nearest_and_what_lies_half_way_goes_to_the_even_one) {
  int wrong = 0;
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const float below = from_f16(low), above = bits + 1 < 0x7c00 ? from_f16(high) : 65536.0f;
    const float middle = below + (above - below) / 2;  // exact
    wrong += to_f16(below) != low;
    wrong += to_f16(-below) != (low | 0x8000);
    wrong += to_f16(middle) != (bits % 2 == 0 ? low : high);
    wrong += to_f16(std::nextafter(middle, 0.0f)) != low;
    wrong += to_f16(std::nextafter(middle, 1e9f)) != high;
  }
  BOOST_TEST(wrong == 0);
  BOOST_TEST(to_f16(INFINITY) == 0x7c00);
  BOOST_TEST(to_f16(-1e30f) == 0xfc00);
  BOOST_TEST(std::isnan(from_f16(to_f16(NAN))));
  BOOST_TEST(std::isnan(from_f16(to_f16(std::bit_cast<float>(0x7f800001u)))));  // a payload in the low bits only
}

BOOST_AUTO_TEST_SUITE_END()
