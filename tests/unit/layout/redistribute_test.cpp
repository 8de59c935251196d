#include "layout/redistribute.hpp"

#include "base/error.hpp"
#include "unit/layout/brute_force.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>

using namespace lockstep;
using brute_force::Dice;
using brute_force::elements_of;
using brute_force::holdings;

namespace {

/// Same tensor, other ranks.
struct Move {
  Layout from;
  Layout to;
  int ranks = 0;  // of the larger world
};

Move random_move(Dice& dice) {
  const Shape shape = dice.shape(dice.roll(0, 2));
  Move move{dice.layout(shape), dice.layout(shape), 0};
  move.ranks = std::max(world_size(move.from.mesh), world_size(move.to.mesh));
  return move;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redistribution)

BOOST_AUTO_TEST_CASE(every_element_arrives_once_from_its_nearest_holder) {
  Dice dice(1);
  for (int trial = 0; trial < 1500; ++trial) {
    const Move move = random_move(dice);
    const auto before = holdings(move.from);
    const auto after = holdings(move.to);
    for (Rank rank = 0; rank < static_cast<Rank>(after.size()); ++rank) {
      std::map<brute_force::Element, Rank> arrived;
      for (const Copy& copy : redistribute(move.from, move.to, rank)) {
        if (copy.destination != rank) continue;
        BOOST_REQUIRE(!empty(copy.box));
        for (const auto& element : elements_of(copy.box)) BOOST_REQUIRE(arrived.insert({element, copy.source}).second);
      }
      BOOST_REQUIRE_EQUAL(arrived.size(), after[static_cast<std::size_t>(rank)].size());
      for (const auto& element : after[static_cast<std::size_t>(rank)]) {
        Rank nearest = -1;
        for (Rank holder = 0; holder < static_cast<Rank>(before.size()); ++holder) {
          if (!before[static_cast<std::size_t>(holder)].contains(element)) continue;
          if (nearest < 0 || std::abs(holder - rank) < std::abs(nearest - rank)) nearest = holder;
        }
        BOOST_REQUIRE_EQUAL(arrived.at(element), nearest);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_one_rank_sends_is_what_another_receives) {
  Dice dice(2);
  for (int trial = 0; trial < 1000; ++trial) {
    const Move move = random_move(dice);
    std::vector<Copy> sent;
    std::vector<Copy> received;
    for (Rank rank = 0; rank < move.ranks; ++rank) {
      for (const Copy& copy : redistribute(move.from, move.to, rank)) {
        BOOST_REQUIRE(copy.source == rank || copy.destination == rank);
        if (copy.source == copy.destination) continue;
        (copy.source == rank ? sent : received).push_back(copy);
      }
    }
    BOOST_REQUIRE((std::is_permutation(sent.begin(), sent.end(), received.begin(), received.end())));
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_sent_to_the_same_layout) {
  Dice dice(3);
  for (int trial = 0; trial < 500; ++trial) {
    const Layout layout = dice.layout(dice.shape(2));
    for (Rank rank = 0; rank < world_size(layout.mesh); ++rank)
      for (const Copy& copy : redistribute(layout, layout, rank)) BOOST_REQUIRE_EQUAL(copy.source, copy.destination);
  }
}

BOOST_AUTO_TEST_CASE(another_shape_is_another_tensor) {
  const Mesh mesh = make_mesh("world", {{"tp", 2}});
  BOOST_CHECK_EXCEPTION(redistribute(replicated({3}, DType::f32, mesh), replicated({3, 1}, DType::f32, mesh), 0), Error,
                        [](const Error& error) {
                          return error.code() == ExitCode::usage &&
                                 std::string(error.what()) == "cannot redistribute a (3) tensor to a (3, 1) tensor";
                        });
}

BOOST_AUTO_TEST_SUITE_END()
