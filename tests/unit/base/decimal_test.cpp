#include "base/decimal.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <limits>
#include <random>

BOOST_AUTO_TEST_SUITE(decimals)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(a_fraction_is_the_decimal_that_a_person_wrote) {
  BOOST_TEST(Decimal::nearest(0.1).billionths == 100'000'000);
  BOOST_TEST(Decimal::nearest(1.5).billionths == 1'500'000'000);
  BOOST_TEST(Decimal::nearest(2147483647).billionths == 2147483647 * Decimal::one);
  BOOST_TEST(part_up(Decimal::nearest(0.07), 100) == 7);  // 0.07 · 100 is above 7 in doubles
  BOOST_TEST(part_up(Decimal::nearest(0.07), 101) == 8);
  BOOST_TEST(part_up(Decimal::nearest(0), 101) == 0);
  BOOST_TEST(parts_in(3, Decimal::nearest(0.1), 10) == 3);
}

// Tenths, hundredths and thousandths as pairs of whole numbers.
BOOST_AUTO_TEST_CASE(parts_are_those_of_integer_arithmetic) {
  std::mt19937_64 draw(7);
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t denominator = std::array{1, 10, 100, 1000}[draw() % 4];
    const auto numerator = static_cast<std::int64_t>(draw() % 5000 + 1);
    const auto whole = static_cast<std::int64_t>(draw() % 100000 + 1), by = static_cast<std::int64_t>(draw() % 500 + 1);
    const Decimal fraction = Decimal::nearest(static_cast<double>(numerator) / static_cast<double>(denominator));
    std::int64_t up = numerator * whole / (denominator * by);
    if (up * denominator * by < numerator * whole) ++up;
    BOOST_REQUIRE_EQUAL(part_up(fraction, whole, by), up);
    const auto amount = static_cast<std::int64_t>(draw() % 1000000);
    BOOST_REQUIRE_EQUAL(parts_in(amount, fraction, whole), amount * denominator / (numerator * whole));
  }
}

BOOST_AUTO_TEST_CASE(what_64_bits_do_not_hold_is_the_most_that_they_do) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  BOOST_TEST(part_up(Decimal::nearest(2147483647), most) == most);
  BOOST_TEST(parts_in(most, Decimal{1}, 1) == most);
  BOOST_TEST(parts_in(most, Decimal::nearest(1), most) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
