// Frequencies against those of transformers 5.23 with all its numbers in double, θ 10000 and heads of 12, spelled out.
#include "architecture/rope_frequencies.hpp"

#include "unit/architecture/configs.hpp"

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(frequencies_of_rope)

namespace {

void check(const Rope& rope, std::int64_t length, const std::vector<double>& radians, double attention_factor) {
  const RopeFrequencies found = rope_frequencies(rope, 12, length);
  BOOST_TEST(found.attention_factor == attention_factor, boost::test_tools::tolerance(1e-14));
  BOOST_REQUIRE(found.radians.size() == radians.size());
  for (std::size_t i = 0; i < radians.size(); ++i)
    BOOST_TEST(found.radians[i] == radians[i], boost::test_tools::tolerance(1e-14));
}

ModelConfig with_rope(const Rope& rope, std::int64_t positions) {
  ModelConfig config = tiny_llama();
  config.rope = rope;
  config.max_positions = positions;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_CASE(linear_ones_are_divided) {
  check({.kind = RopeKind::linear, .factor = 2.5}, 100,
        {0.4, 0.0861773876012754, 0.0185663553344511, 0.004, 0.000861773876012754, 0.000185663553344511}, 1);
}

BOOST_AUTO_TEST_CASE(dynamic_ones_depend_on_the_length_beyond_the_models_positions) {
  const Rope rope{.kind = RopeKind::dynamic, .factor = 2, .original_positions = 128};
  for (const std::int64_t length : {1, 100, 128})
    check(rope, length, {1, 0.215443469003188, 0.0464158883361278, 0.01, 0.00215443469003188, 0.000464158883361278}, 1);
  check(rope, 300,
        {1, 0.165953695385918, 0.0275406290122419, 0.00457046915783416, 0.000758486246389941, 0.000125873595487804}, 1);
}

BOOST_AUTO_TEST_CASE(those_of_yarn_follow_its_ramp) {
  Rope rope{.kind = RopeKind::yarn, .factor = 4, .original_positions = 200};
  check(rope, 100, {1, 0.161582601752391, 0.0232079441680639, 0.0025, 0.000538608672507971, 0.000116039720840319},
        1.13862943611199);
  rope.beta_fast = 8;
  rope.beta_slow = 0.5;
  rope.mscale = 0.8;
  rope.mscale_all_dim = 0.5;
  rope.truncate = false;
  check(rope, 100, {1, 0.206465185478281, 0.0252077953487104, 0.0025, 0.000538608672507971, 0.000116039720840319},
        1.03889297522174);
}

BOOST_AUTO_TEST_CASE(those_of_longrope_have_divisors_for_short_and_for_long_texts) {
  Rope rope{.kind = RopeKind::longrope,
            .factor = 4,
            .original_positions = 64,
            .short_factor = {1, 1.25, 1.5, 2, 2.5, 3},
            .long_factor = {1, 2, 4, 8, 16, 32}};
  check(rope, 64, {1, 0.172354775202551, 0.0309439255574185, 0.005, 0.000861773876012754, 0.000154719627787093},
        1.15470053837925);
  rope.attention_factor = 0.75;
  check(rope, 65, {1, 0.107721734501594, 0.011603972084032, 0.00125, 0.000134652168126993, 1.45049651050399e-05}, 0.75);
}

BOOST_AUTO_TEST_CASE(those_of_llama3_are_divided_where_waves_are_long) {
  check({.kind = RopeKind::llama3, .factor = 8, .original_positions = 200}, 100,
        {1, 0.215443469003188, 0.0122658728890671, 0.00125, 0.000269304336253986, 5.80198604201597e-05}, 1);
}

BOOST_AUTO_TEST_CASE(a_text_may_be_as_long_as_the_frequencies_reach) {
  BOOST_TEST(longest_length(tiny_gpt2()) == 6);
  BOOST_TEST(longest_length(with_rope({}, 100)) == 100);
  BOOST_TEST(longest_length(with_rope({.kind = RopeKind::linear, .factor = 2.5}, 100)) == 250);
  BOOST_TEST(longest_length(with_rope({.kind = RopeKind::dynamic, .original_positions = 100}, 100)) > 1 << 20);
  const Rope yarn{.kind = RopeKind::yarn, .factor = 4, .original_positions = 100};
  BOOST_TEST(longest_length(with_rope(yarn, 100)) == 400);
  BOOST_TEST(longest_length(with_rope(yarn, 500)) == 500);
}

BOOST_AUTO_TEST_CASE(lengths_of_equal_frequencies_have_one_representative) {
  const Rope dynamic{.kind = RopeKind::dynamic, .original_positions = 100};
  BOOST_TEST(representative_length(dynamic, 3) == representative_length(dynamic, 100));
  BOOST_TEST(representative_length(dynamic, 101) != representative_length(dynamic, 102));
  const Rope longrope{.kind = RopeKind::longrope, .original_positions = 100};
  BOOST_TEST(representative_length(longrope, 3) == representative_length(longrope, 100));
  BOOST_TEST(representative_length(longrope, 100) != representative_length(longrope, 101));
  BOOST_TEST(representative_length(longrope, 101) == representative_length(longrope, 1000));
  BOOST_TEST(representative_length({}, 1) == representative_length({}, 1000));
}

BOOST_AUTO_TEST_SUITE_END()
