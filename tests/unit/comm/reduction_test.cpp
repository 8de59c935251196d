#include "comm/reduction.hpp"

#include "quant/bfloat16.hpp"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(reduction)

BOOST_AUTO_TEST_CASE(every_f16_value_survives_the_way_to_fp32_and_back) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = from_f16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      BOOST_TEST(std::isnan(from_f16(to_f16(value))));
    } else if (to_f16(value) != bits) {
      BOOST_ERROR("f16 " << bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(f16_values_are_those_of_ieee_754) {
  BOOST_TEST(from_f16(0x3c00) == 1.0f);
  BOOST_TEST(from_f16(0x7bff) == 65504.0f);
  BOOST_TEST(from_f16(0x0001) == std::exp2(-24.0f));
  BOOST_TEST(std::isinf(from_f16(0xfc00)));
}

BOOST_AUTO_TEST_CASE(between_two_neighbours_the_nearer_is_taken_and_of_equals_the_even_one) {
  for (const std::uint16_t even : {0x0000, 0x0002, 0x03fe, 0x0400, 0x3c00, 0x7bfc}) {   // subnormal, at the border, normal
    const double low = from_f16(even);
    const double high = from_f16(static_cast<std::uint16_t>(even + 1));
    const double next = from_f16(static_cast<std::uint16_t>(even + 2));
    BOOST_TEST(to_f16(static_cast<float>((low + high) / 2)) == even);
    BOOST_TEST(to_f16(static_cast<float>((high + next) / 2)) == even + 2);
    BOOST_TEST(to_f16(static_cast<float>(low + (high - low) * 0.51)) == even + 1);
    BOOST_TEST(to_f16(static_cast<float>(low + (high - low) * 0.49)) == even);
  }
  BOOST_TEST(to_f16(65519.0f) == 0x7bff);
  BOOST_TEST(to_f16(65520.0f) == 0x7c00);
}

BOOST_AUTO_TEST_CASE(bf16_accumulates_in_fp32) {
  // 256 + 1 is 256 in bf16 at every step; in fp32 the four ones add up to 4, and 260 is a bf16 number.
  const std::vector<std::uint16_t> operands = {to_bf16(256), to_bf16(1), to_bf16(1), to_bf16(1), to_bf16(1)};
  std::uint16_t sum = 0;
  reduce_in_order(std::as_bytes(std::span(operands)), 5, std::as_writable_bytes(std::span(&sum, 1)), DType::bf16, Reduce::sum);
  BOOST_TEST(from_bf16(sum) == 260.0f);
}

BOOST_AUTO_TEST_SUITE_END()
