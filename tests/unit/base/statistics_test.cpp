#include "base/statistics.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

BOOST_AUTO_TEST_SUITE(statistics)

using namespace lockstep;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Statistics of(const std::vector<double>& values) {
  Statistics statistics;
  for (const double value : values) statistics.add(value);
  return statistics;
}

void expect_equal(const Statistics& got, const Statistics& want, double bound) {
  BOOST_TEST((got.finite == want.finite && got.nan == want.nan && got.infinite == want.infinite));
  BOOST_TEST((got.zeros == want.zeros && got.min == want.min && got.max == want.max));
  BOOST_TEST(std::abs(got.mean - want.mean) <= bound * std::abs(want.mean));
  BOOST_TEST(std::abs(got.squares - want.squares) <= bound * want.squares);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_not_finite_counts_in_nothing_else) {
  const Statistics some = of({2, not_a_number, -1, 0, infinity, -0.0, 3, -infinity, 2});
  BOOST_TEST((some.finite == 6 && some.nan == 1 && some.infinite == 2 && some.zeros == 2));
  BOOST_TEST((some.min == -1 && some.max == 3 && some.mean == 1));
  BOOST_TEST(std::abs(some.deviation() - std::sqrt(2.0)) < 1e-15);
  BOOST_TEST(std::abs(some.norm() - std::sqrt(18.0)) < 1e-14);
  const Statistics none = of({not_a_number});
  BOOST_TEST((none.finite == 0 && none.min == 0 && none.max == 0 && none.mean == 0));
  BOOST_TEST((none.deviation() == 0 && none.norm() == 0));
}

BOOST_AUTO_TEST_CASE(parts_come_to_what_their_values_come_to_however_they_are_cut) {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(i % 7 == 3 ? 0 : std::sin(i) * (i % 11 == 0 ? 100 : 1) + 0.3);
  values[20] = not_a_number;
  values[70] = infinity;
  const Statistics want = of(values);
  for (const std::size_t length : {1, 3, 50, 99, 100}) {
    Statistics all;
    all.add(Statistics{});
    for (std::size_t begin = 0; begin < values.size(); begin += length)
      all.add(of({values.begin() + static_cast<std::ptrdiff_t>(begin),
                  values.begin() + static_cast<std::ptrdiff_t>(std::min(begin + length, values.size()))}));
    all.add(of({}));
    expect_equal(all, want, 1e-13);
  }
}

// The sum of squares less the square of the mean would have no digit left.
BOOST_AUTO_TEST_CASE(a_mean_far_from_zero_takes_no_digits_of_the_deviation) {
  Statistics all = of({1e9 - 1, 1e9 + 1});
  all.add(of({1e9 + 1, 1e9 - 1, 1e9 - 1, 1e9 + 1}));
  BOOST_TEST(all.deviation() == 1);
  BOOST_TEST(all.mean == 1e9);
}

BOOST_AUTO_TEST_CASE(a_factor_scales_all_that_has_the_unit_of_the_values) {
  Statistics scaled = of({-3, 0, 5, infinity});
  scaled.scale(0.5);
  expect_equal(scaled, of({-1.5, 0, 2.5, infinity}), 1e-15);
}

BOOST_AUTO_TEST_SUITE_END()
