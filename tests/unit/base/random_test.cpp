#include "base/random.hpp"

#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <set>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(random_numbers)

BOOST_AUTO_TEST_CASE(philox_gives_the_published_test_vectors) {
  // Known answers of the Random123 distribution (Salmon et al., SC11), philox4x32-10.
  const std::array<std::uint32_t, 4> zeros{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const std::array<std::uint32_t, 4> ones{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  const std::array<std::uint32_t, 4> pi{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  BOOST_TEST(philox({0, 0, 0, 0}, {0, 0}) == zeros);
  BOOST_TEST(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == ones);
  BOOST_TEST(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) == pi);
}

BOOST_AUTO_TEST_CASE(a_permutation_visits_every_index_once_for_every_small_size) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    const Permutation order(size, 17, "epoch");
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) {
      BOOST_REQUIRE_LT(order(i), size);
      seen.insert(order(i));
    }
    BOOST_REQUIRE_EQUAL(seen.size(), size);
  }
}

BOOST_AUTO_TEST_CASE(permutations_of_other_seeds_and_names_differ) {
  const Permutation a(1000, 1, "epoch 0");
  const Permutation b(1000, 2, "epoch 0");
  const Permutation c(1000, 1, "epoch 1");
  int equal_seed = 0;
  int equal_name = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    equal_seed += a(i) == b(i);
    equal_name += a(i) == c(i);
  }
  BOOST_TEST(equal_seed < 20);
  BOOST_TEST(equal_name < 20);
}

BOOST_AUTO_TEST_CASE(normal_values_have_mean_0_and_deviation_1) {
  const RandomStream stream(7, "init");
  double sum = 0;
  double squares = 0;
  constexpr int count = 100000;
  for (int i = 0; i < count; ++i) {
    const double value = stream.normal(static_cast<std::uint64_t>(i));
    sum += value;
    squares += value * value;
  }
  BOOST_TEST(std::abs(sum / count) < 0.015);
  BOOST_TEST(std::abs(squares / count - 1) < 0.02);
}

BOOST_AUTO_TEST_SUITE_END()
