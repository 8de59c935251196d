#include "comm/reduction.hpp"

#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

using namespace lockstep;

namespace {

/// The sum of one element each.
template <class T>
T sum_of(const std::vector<T>& operands, DType dtype) {
  std::vector<const std::byte*> addresses;
  for (const T& operand : operands) addresses.push_back(reinterpret_cast<const std::byte*>(&operand));
  T sum{};
  reduce_in_order(addresses, std::as_writable_bytes(std::span(&sum, 1)), dtype, Reduce::sum);
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reduction)

BOOST_AUTO_TEST_CASE(bf16_accumulates_in_fp32) {
  // 256 + 1 is 256 in bf16 at every step; in fp32 the four ones add up to 4, and 260 is a bf16 number.
  const std::vector<std::uint16_t> operands = {to_bf16(256), to_bf16(1), to_bf16(1), to_bf16(1), to_bf16(1)};
  BOOST_TEST(from_bf16(sum_of(operands, DType::bf16)) == 260.0f);
}

BOOST_AUTO_TEST_CASE(fp16_accumulates_in_fp32_and_overflows_to_infinity) {
  // 2048 + 1 is 2048 in fp16 at every step.
  const std::vector<std::uint16_t> operands = {to_f16(2048), to_f16(1), to_f16(1)}, large(2, to_f16(65504));
  BOOST_TEST(from_f16(sum_of(operands, DType::f16)) == 2050.0f);
  BOOST_TEST(std::isinf(from_f16(sum_of(large, DType::f16))));
}

BOOST_AUTO_TEST_CASE(fp32_keeps_the_order_of_the_operands) {
  // In this order 1 is lost against 2^25 before -2^25 takes it away; in another it would survive.
  const std::vector<float> operands = {33554432.0f, 1.0f, -33554432.0f};
  BOOST_TEST(sum_of(operands, DType::f32) == 0.0f);
}

BOOST_AUTO_TEST_CASE(the_result_may_take_the_place_of_an_operand) {
  for (std::size_t into = 0; into < 3; ++into) {
    std::vector<std::vector<float>> operands(3);
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 200; ++j) operands[i].push_back(static_cast<float>((i + 1) * j));
    std::vector<const std::byte*> addresses;
    for (const auto& operand : operands) addresses.push_back(std::as_bytes(std::span(operand)).data());
    reduce_in_order(addresses, std::as_writable_bytes(std::span(operands[into])), DType::f32, Reduce::sum);
    bool right = true;
    for (std::size_t j = 0; j < 200; ++j) right = right && operands[into][j] == static_cast<float>(6 * j);
    BOOST_TEST(right, "into operand " << into);
  }
}

BOOST_AUTO_TEST_SUITE_END()
