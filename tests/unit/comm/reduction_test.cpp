#include "comm/reduction.hpp"

#include "quant/bfloat16.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(reduction)

BOOST_AUTO_TEST_CASE(bf16_accumulates_in_fp32) {
  // 256 + 1 is 256 in bf16 at every step; in fp32 the four ones add up to 4, and 260 is a bf16 number.
  const std::vector<std::uint16_t> operands = {to_bf16(256), to_bf16(1), to_bf16(1), to_bf16(1), to_bf16(1)};
  std::uint16_t sum = 0;
  reduce_in_order(std::as_bytes(std::span(operands)), 5, std::as_writable_bytes(std::span(&sum, 1)), DType::bf16, Reduce::sum);
  BOOST_TEST(from_bf16(sum) == 260.0f);
}

BOOST_AUTO_TEST_CASE(fp32_keeps_the_order_of_the_operands) {
  // In this order 1 is lost against 2^25 before -2^25 takes it away; in another it would survive.
  const std::vector<float> operands = {33554432.0f, 1.0f, -33554432.0f};
  float sum = -1;
  reduce_in_order(std::as_bytes(std::span(operands)), 3, std::as_writable_bytes(std::span(&sum, 1)), DType::f32, Reduce::sum);
  BOOST_TEST(sum == 0.0f);
}

BOOST_AUTO_TEST_SUITE_END()
