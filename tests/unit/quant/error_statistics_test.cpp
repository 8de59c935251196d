#include "quant/error_statistics.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(error_statistics)

BOOST_AUTO_TEST_CASE(errors_of_a_spelt_out_example_are_as_computed_by_hand) {
  ErrorStatistics errors;
  errors.add(std::vector<float>{3, 0}, std::vector<float>{3.5f, 0});
  ErrorStatistics more;
  more.add(std::vector<float>{-4}, std::vector<float>{-4.25f});
  errors.add(more);
  BOOST_TEST(errors.count == 3);
  BOOST_TEST(errors.max_abs == 0.5);
  BOOST_TEST(errors.relative_l2() == std::sqrt(0.3125) / 5, boost::test_tools::tolerance(1e-15));
  BOOST_TEST(errors.sqnr_db() == 10 * std::log10(25 / 0.3125), boost::test_tools::tolerance(1e-14));
}

BOOST_AUTO_TEST_CASE(equal_values_have_no_error_and_infinite_sqnr) {
  ErrorStatistics errors;
  errors.add(std::vector<float>{0, 0}, std::vector<float>{0, 0});
  BOOST_TEST(errors.relative_l2() == 0);
  BOOST_TEST(std::isinf(errors.sqnr_db()));
}

BOOST_AUTO_TEST_SUITE_END()
