#include "layout/sequence.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

BOOST_AUTO_TEST_SUITE(sequence)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(ranks_along_ulysses_have_neighbouring_rows_and_the_last_has_padding) {
  const auto rows = [](int rank, int ranks, std::int64_t samples, std::int64_t length) {
    return rows_of({{ranks}, rank}, samples, length);
  };
  const auto same = boost::test_tools::per_element();
  BOOST_TEST(rows(0, 2, 1, 7) == (std::vector<std::int64_t>{0, 1, 2, 3}), same);
  BOOST_TEST(rows(1, 2, 1, 7) == (std::vector<std::int64_t>{4, 5, 6, -1}), same);
  BOOST_TEST(rows(1, 2, 2, 3) == (std::vector<std::int64_t>{3, 4, 5}), same);
  BOOST_TEST(rows(3, 4, 1, 5) == (std::vector<std::int64_t>{-1, -1}), same);  // padding alone
  BOOST_TEST(rows(2, 4, 1, 5) == (std::vector<std::int64_t>{4, -1}), same);
  BOOST_TEST(rows(0, 1, 2, 2) == (std::vector<std::int64_t>{0, 1, 2, 3}), same);
}

BOOST_AUTO_TEST_CASE(a_place_is_that_of_a_rank_on_the_mesh) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"ulysses", 3}, {"tp", 2}});
  BOOST_TEST(sequence_ranks(mesh).count() == 3);
  BOOST_TEST(sequence_place(mesh, 6 + 2 * 2 + 1).index() == 2);
  BOOST_TEST(sequence_place(make_mesh("world", {{"tp", 2}}), 1).ranks.count() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
