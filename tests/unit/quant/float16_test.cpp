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

BOOST_AUTO_TEST_SUITE_END()
