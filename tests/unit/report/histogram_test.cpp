#include "report/histogram.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>
#include <numeric>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(histogram)

BOOST_AUTO_TEST_CASE(a_number_on_an_edge_belongs_to_the_bin_above_and_the_greatest_to_the_last) {
  Histogram histogram = empty_histogram(0, 4, 4);
  for (const double value : {0.0, 0.5, 1.0, 3.0, 4.0}) count_into(histogram, value);
  BOOST_TEST(histogram.edges == (std::vector<double>{0, 1, 2, 3, 4}), boost::test_tools::per_element());
  BOOST_TEST(histogram.counts == (std::vector<std::int64_t>{2, 1, 0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_single_value_lies_in_the_middle) {
  Histogram histogram = empty_histogram(7, 7, 2);
  count_into(histogram, 7);
  BOOST_TEST(histogram.edges == (std::vector<double>{6.5, 7, 7.5}), boost::test_tools::per_element());
  BOOST_TEST(histogram.counts == (std::vector<std::int64_t>{0, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(numbers_as_far_apart_as_there_are_find_their_bins) {
  constexpr double most = std::numeric_limits<double>::max();
  Histogram histogram = empty_histogram(-most, most, 4);
  for (const double value : {-most, -most / 4, 0.0, most}) count_into(histogram, value);
  BOOST_TEST(histogram.counts == (std::vector<std::int64_t>{1, 1, 1, 1}), boost::test_tools::per_element());
  Histogram narrow = empty_histogram(most, most, 3);  // no number lies a half beside it
  count_into(narrow, most);
  BOOST_TEST(std::accumulate(narrow.counts.begin(), narrow.counts.end(), std::int64_t{0}) == 1);
  BOOST_TEST(histogram_svg({}, narrow).find("</svg>") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_bar_is_as_high_as_its_count) {
  Histogram histogram = empty_histogram(0, 2, 2);
  for (const double value : {0.0, 1.0, 2.0}) count_into(histogram, value);
  const std::string svg = histogram_svg({"a < b", "value", "elements"}, histogram);
  BOOST_TEST(svg.find(R"(x="80.0" y="220.0" width="350.0" height="180.0")") != std::string::npos, svg);
  BOOST_TEST(svg.find(R"(x="430.0" y="40.0" width="350.0" height="360.0")") != std::string::npos, svg);
  BOOST_TEST(svg.find("a &lt; b") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
