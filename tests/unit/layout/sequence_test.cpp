#include "layout/sequence.hpp"
#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

BOOST_AUTO_TEST_SUITE(sequence)

using namespace lockstep;

BOOST_AUTO_TEST_CASE(ranks_along_ulysses_have_neighbouring_rows_and_the_last_has_padding) {
  const auto rows = [](int rank, int ranks, std::int64_t samples, std::int64_t length) {
    std::vector<std::int64_t> segments;
    for (std::int64_t sample = 0; sample <= samples; ++sample) segments.push_back(sample * length);
    return rows_of({{ranks}, rank}, segments);
  };
  const auto same = boost::test_tools::per_element();
  BOOST_TEST(rows(0, 2, 1, 7) == (std::vector<std::int64_t>{0, 1, 2, 3}), same);
  BOOST_TEST(rows(1, 2, 1, 7) == (std::vector<std::int64_t>{4, 5, 6, -1}), same);
  BOOST_TEST(rows(1, 2, 2, 3) == (std::vector<std::int64_t>{3, 4, 5}), same);
  BOOST_TEST(rows(3, 4, 1, 5) == (std::vector<std::int64_t>{-1, -1}), same);  // padding alone
  BOOST_TEST(rows(2, 4, 1, 5) == (std::vector<std::int64_t>{4, -1}), same);
  BOOST_TEST(rows(0, 1, 2, 2) == (std::vector<std::int64_t>{0, 1, 2, 3}), same);
}

BOOST_AUTO_TEST_CASE(ranks_of_a_ring_have_a_part_from_the_front_and_one_from_the_back_of_each_segment) {
  const std::vector<std::int64_t> segments{0, 8, 9, 14};
  const auto rows = [&](int ring, int ulysses) { return rows_of({{ulysses, 2}, 0, ring}, segments); };
  const auto same = boost::test_tools::per_element();
  BOOST_TEST(rows(0, 1) == (std::vector<std::int64_t>{0, 1, 6, 7, -1, 8, 9, -1, 12, 13}), same);
  BOOST_TEST(rows(1, 1) == (std::vector<std::int64_t>{2, 3, 4, 5, -1, -1, 10, -1, 11, -1}), same);
  BOOST_TEST(rows(0, 3) == (std::vector<std::int64_t>{0, 1, 6, 7}), same);  // the first of three along ulysses
  BOOST_TEST(
      attended_rows({3, 2}, 1, segments) == (std::vector<std::int64_t>{2, 3, 4, 5, -1, -1, 10, -1, 11, -1, -1, -1}),
      same);
}

BOOST_AUTO_TEST_CASE(ranks_have_every_row_once_and_no_more_of_them_than_is_planned) {
  const RandomStream random(5, "segments");
  for (std::uint64_t draw = 0; draw < 500; ++draw) {
    const SequenceRanks ranks{static_cast<int>(1 + random.below(4 * draw, 4)),
                              static_cast<int>(1 + random.below(4 * draw + 1, 5))};
    const auto length = static_cast<std::int64_t>(1 + random.below(4 * draw + 2, 40));
    std::vector<std::int64_t> segments;
    std::int64_t most = 0;
    for (std::int64_t sample = 0; sample < 3; ++sample) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < length; ++i)
        if (i == 0 || random.below(1000 * draw + static_cast<std::uint64_t>(40 * sample + i), 3) == 0) {
          segments.push_back(sample * length + i);
          ++count;
        }
      most = std::max(most, count);
    }
    segments.push_back(3 * length);
    BOOST_TEST(rows_of_each(ranks, segments) <= most_rows_of_each(ranks, 3, length, most));
    std::vector<int> seen(static_cast<std::size_t>(3 * length));
    for (int ring = 0; ring < ranks.ring; ++ring)
      for (int ulysses = 0; ulysses < ranks.ulysses; ++ulysses) {
        const std::vector<std::int64_t> rows = rows_of({ranks, ulysses, ring}, segments);
        BOOST_TEST(std::ssize(rows) == rows_of_each(ranks, segments));
        for (const std::int64_t row : rows)
          if (row >= 0) ++seen[static_cast<std::size_t>(row)];
      }
    BOOST_TEST(std::ranges::count(seen, 1) == std::ssize(seen));
  }
}

BOOST_AUTO_TEST_CASE(the_most_rows_are_those_of_documents_of_one_token) {
  BOOST_TEST(most_rows_of_each({1, 3}, 2, 37, 1) == 28);   // 7 rows in each of two parts
  BOOST_TEST(most_rows_of_each({1, 3}, 1, 37, 37) == 74);  // two rows for each token
  BOOST_TEST(most_rows_of_each({1, 3}, 1, 37, 99) == 74);  // there are no more documents than tokens
  BOOST_TEST(most_rows_of_each({2, 3}, 1, 37, 5) == 10);   // 4 of one token and one of 33, shared by two
  BOOST_TEST(most_rows_of_each({2, 1}, 1, 37, 37) == 19);
}

BOOST_AUTO_TEST_CASE(ranks_of_a_ring_attend_to_equally_many_pairs) {
  for (const int ring : {2, 3, 4, 8})
    for (const std::int64_t length : {64 * ring, 64 * ring + 1, 100 * ring + ring / 2, 1024 * ring - 1})
      BOOST_TEST(ring_imbalance({1, ring}, std::vector<std::int64_t>{0, length}, 0) <= 1.05);
  // Of 16 tokens with a window of 2 rank 0 sees 1 + 2·3 pairs in front and 2·4 behind; rank 1 2·8.
  BOOST_TEST(ring_imbalance({1, 2}, std::vector<std::int64_t>{0, 16}, 2) == 16 / 15.5);
}

BOOST_AUTO_TEST_CASE(a_place_is_that_of_a_rank_on_the_mesh) {
  const Mesh mesh = make_mesh("world", {{"dp_replicate", 2}, {"ulysses", 3}, {"tp", 2}});
  BOOST_TEST(sequence_ranks(mesh).count() == 3);
  BOOST_TEST(sequence_place(mesh, 6 + 2 * 2 + 1).index() == 2);
  BOOST_TEST(sequence_place(make_mesh("world", {{"tp", 2}}), 1).ranks.count() == 1);
  const Mesh both = make_mesh("world", {{"ring", 2}, {"ulysses", 3}});
  BOOST_TEST(sequence_ranks(both).count() == 6);
  BOOST_TEST(sequence_place(both, 4).index() == 4);
}

BOOST_AUTO_TEST_SUITE_END()
