#include "reshard/cast.hpp"

#include "base/random.hpp"
#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(cast_)

namespace {

template <class To, class From>
To cast_one(DType from, From value, DType to) {
  To result{};
  cast(from, std::as_bytes(std::span(&value, 1)), to, std::as_writable_bytes(std::span(&result, 1)));
  return result;
}

/// Whether no other value of the type is nearer: its neighbours are those of the next bits.
template <class Decode>
bool is_nearest(double value, std::uint16_t bits, const Decode& decode) {
  const double own = std::abs(static_cast<double>(decode(bits)) - value);
  const double above = std::abs(static_cast<double>(decode(static_cast<std::uint16_t>(bits + 1))) - value);
  const double below = (bits & 0x7fffu) == 0
                           ? above
                           : std::abs(static_cast<double>(decode(static_cast<std::uint16_t>(bits - 1))) - value);
  return own <= above && own <= below && (own < std::min(above, below) || bits % 2 == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_value_is_nearer_than_the_one_a_weight_is_cast_to) {
  const RandomStream random(7, "cast");
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double value = random.normal(i) * std::exp2(static_cast<double>(random.below(i, 12)) - 6);
    const auto bf16 = cast_one<std::uint16_t>(DType::f64, value, DType::bf16);
    BOOST_REQUIRE(is_nearest(value, bf16, [](std::uint16_t bits) { return from_bf16(bits); }));
    const auto f16 = cast_one<std::uint16_t>(DType::f64, value, DType::f16);
    BOOST_REQUIRE(is_nearest(value, f16, [](std::uint16_t bits) { return from_f16(bits); }));
    BOOST_REQUIRE(cast_one<float>(DType::f64, value, DType::f32) == static_cast<float>(value));
  }
}

BOOST_AUTO_TEST_CASE(a_value_is_rounded_once_and_not_by_way_of_fp32) {
  // A little above the middle between 1 and the next bf16: in fp32 it is the middle, which goes to the even one.
  BOOST_TEST(from_bf16(cast_one<std::uint16_t>(DType::f64, 1 + 0x1p-8 + 0x1p-40, DType::bf16)) == 1 + 0x1p-7);
  BOOST_TEST(from_bf16(cast_one<std::uint16_t>(DType::f64, 1 + 0x1p-8, DType::bf16)) == 1);
  BOOST_TEST(from_bf16(cast_one<std::uint16_t>(DType::f64, 1 + 3 * 0x1p-8, DType::bf16)) == 1 + 0x1p-6);
  BOOST_TEST(from_f16(cast_one<std::uint16_t>(DType::f64, -1 - 0x1p-11 - 0x1p-40, DType::f16)) == -1 - 0x1p-10);
  BOOST_TEST(from_f16(cast_one<std::uint16_t>(DType::f64, 0x1p-25 + 0x1p-60, DType::f16)) == 0x1p-24);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_or_too_large_is_infinity_or_stays_no_number) {
  const double infinity = std::numeric_limits<double>::infinity();
  BOOST_TEST(std::isinf(from_f16(cast_one<std::uint16_t>(DType::f64, 65520.0, DType::f16))));
  BOOST_TEST(from_f16(cast_one<std::uint16_t>(DType::f64, 65519.9999, DType::f16)) == 65504);
  BOOST_TEST(from_bf16(cast_one<std::uint16_t>(DType::f64, -1e300, DType::bf16)) == -infinity);
  BOOST_TEST(std::isnan(from_bf16(cast_one<std::uint16_t>(DType::f32, std::nanf(""), DType::bf16))));
  BOOST_TEST(cast_one<double>(DType::bf16, std::uint16_t{0x8000}, DType::f64) == 0);
  BOOST_TEST(std::signbit(cast_one<double>(DType::bf16, std::uint16_t{0x8000}, DType::f64)));
}

BOOST_AUTO_TEST_CASE(to_a_wider_type_and_back_is_the_same_bits) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const auto wide = cast_one<float>(DType::bf16, narrow, DType::f32);
    BOOST_REQUIRE(cast_one<std::uint16_t>(DType::f32, wide, DType::bf16) == narrow);
    if (bits < 0x7c00)
      BOOST_REQUIRE(cast_one<std::uint16_t>(DType::f64, cast_one<double>(DType::f16, narrow, DType::f64), DType::f16) ==
                    narrow);
  }
}

BOOST_AUTO_TEST_SUITE_END()
