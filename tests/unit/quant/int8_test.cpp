#include "quant/int8.hpp"

#include "base/random.hpp"
#include "quant/bfloat16.hpp"

#include <boost/test/unit_test.hpp>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <vector>

using namespace lockstep;

namespace {
std::vector<float> random_channel(std::size_t size, std::uint64_t seed, double scale) {
  const RandomStream stream(seed, "channel");
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(scale * stream.normal(i));
  return values;
}
}  // namespace

BOOST_AUTO_TEST_SUITE(int8)

BOOST_AUTO_TEST_CASE(codes_are_those_of_the_written_numerics_in_double) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto values = random_channel(333, seed, std::pow(10.0, static_cast<double>(seed) / 5 - 5));
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::abs(value));
    const double scale = static_cast<double>(from_bf16(to_bf16(largest / 127.5f)));
    BOOST_REQUIRE_EQUAL(int8_scale(values), to_bf16(static_cast<float>(scale)));
    std::vector<std::int8_t> codes(values.size());
    int8_encode(values, int8_scale(values), codes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float quotient = values[i] / static_cast<float>(scale);  // fp32, as the contract says
      const double rounded = std::min(127.0, std::max(-128.0, std::nearbyint(static_cast<double>(quotient))));
      BOOST_REQUIRE_EQUAL(static_cast<double>(codes[i]), rounded);
    }
  }
}

BOOST_AUTO_TEST_CASE(halves_round_to_even_and_the_ends_are_clamped) {
  const std::uint16_t one = to_bf16(1.0f);
  const std::vector<float> values{0.5f,   1.5f,   2.5f,    -0.5f,   -1.5f, -2.5f,
                                  126.5f, 127.5f, -127.5f, -128.5f, 1e30f, -1e30f};
  const std::vector<int> expected{0, 2, 2, 0, -2, -2, 126, 127, -128, -128, 127, -128};
  std::vector<std::int8_t> codes(values.size());
  int8_encode(values, one, codes);
  const std::vector<int> got(codes.begin(), codes.end());
  BOOST_TEST(got == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_decoded_value_is_within_half_a_step_unless_it_was_clamped) {
  const auto values = random_channel(1000, 3, 0.02);
  const std::uint16_t scale = int8_scale(values);
  const float step = from_bf16(scale);
  std::vector<std::int8_t> codes(values.size());
  std::vector<float> decoded(values.size());
  int8_encode(values, scale, codes);
  int8_decode(codes, scale, decoded);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool clamped = codes[i] == 127 || codes[i] == -128;
    BOOST_REQUIRE_LE(std::abs(decoded[i] - values[i]),
                     step * (clamped ? 0.76f : 0.5001f));  // absmax/127.5 leaves 0.5 + the scale's rounding
  }
}

BOOST_AUTO_TEST_CASE(a_channel_of_zeros_has_the_epsilon_of_bf16_as_scale_and_stays_zero) {
  const std::vector<float> zeros(5, 0.0f);
  BOOST_TEST(from_bf16(int8_scale(zeros)) == 0x1p-7f);
  std::vector<std::int8_t> codes(5, 1);
  int8_encode(zeros, int8_scale(zeros), codes);
  BOOST_TEST(codes == std::vector<std::int8_t>(5, 0), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(four_codes_fill_a_word_from_the_lowest_byte_and_the_tail_is_zero) {
  const std::vector<std::int8_t> codes{-128, -127, 0, 127, 1};
  std::vector<std::uint32_t> words(int8_packed_words(codes.size()), 7);
  int8_pack(codes, words);
  BOOST_TEST(words == (std::vector<std::uint32_t>{0xff800100u, 0x00000081u}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(packed_codes_of_every_length_come_back) {
  for (std::size_t size = 0; size <= 17; ++size) {
    std::vector<std::int8_t> codes(size);
    for (std::size_t i = 0; i < size; ++i) codes[i] = static_cast<std::int8_t>(static_cast<int>(i * 37 % 256) - 128);
    std::vector<std::uint32_t> words(int8_packed_words(size));
    int8_pack(codes, words);
    for (std::size_t i = 0; i < 4 * words.size(); ++i) {
      const int byte = static_cast<int>(words[i / 4] >> (8 * (i % 4)) & 0xffu);
      BOOST_REQUIRE_EQUAL(byte, i < size ? codes[i] + 128 : 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
