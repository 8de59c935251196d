#include "layout/shard_map.hpp"

#include "base/error.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(shard_map)

namespace {

/// Three ranks, the second with nothing; element 3 and the last two are padding.
ShardMap three_ranks() {
  return {.whole_length = 12, .shard_length = 5, .pieces = {{{0, 0, 3}, {8, 3, 2}}, {}, {{4, 1, 4}}}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(uneven_and_empty_shards_and_gaps_make_a_map) {
  check(three_ranks());
  check(ShardMap{});
  BOOST_TEST(owned_elements(three_ranks()) == 9);
}

BOOST_AUTO_TEST_CASE(elements_that_two_pieces_have_or_that_lie_outside_are_refused) {
  const auto with = [](int rank, ShardPiece piece) {
    ShardMap map = three_ranks();
    map.pieces[static_cast<std::size_t>(rank)].push_back(piece);
    return map;
  };
  check(with(1, {10, 0, 2}));
  BOOST_CHECK_THROW(check(with(1, {2, 0, 1})), Error);   // another rank's
  BOOST_CHECK_THROW(check(with(2, {10, 4, 1})), Error);  // the shard's own
  BOOST_CHECK_THROW(check(with(1, {10, 0, 3})), Error);
  BOOST_CHECK_THROW(check(with(1, {10, 4, 2})), Error);
  BOOST_CHECK_THROW(check(with(1, {10, 0, -1})), Error);
  BOOST_CHECK_THROW(check(with(1, {-1, 0, 1})), Error);
}

BOOST_AUTO_TEST_CASE(portions_are_the_pieces_in_order_cut_where_the_length_says) {
  const std::vector<ShardPiece> pieces{{0, 0, 3}, {5, 3, 0}, {8, 3, 4}};
  ShardPortions portions(pieces);
  std::vector<ShardPiece> part;
  BOOST_TEST(portions.next(2, part) == 2);
  BOOST_TEST((part == std::vector<ShardPiece>{{0, 0, 2}}));
  BOOST_TEST(portions.next(2, part) == 2);
  BOOST_TEST((part == std::vector<ShardPiece>{{2, 2, 1}, {8, 3, 1}}));
  BOOST_TEST(portions.next(10, part) == 3);
  BOOST_TEST((part == std::vector<ShardPiece>{{9, 4, 3}}));
  BOOST_TEST(portions.next(10, part) == 0);
  BOOST_TEST(part.empty());
}

BOOST_AUTO_TEST_SUITE_END()
