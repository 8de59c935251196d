#include "base/content_sum.hpp"

#include <boost/test/unit_test.hpp>

#include <random>
#include <set>
#include <string>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(content_sums)

BOOST_AUTO_TEST_CASE(parts_of_a_text_make_up_its_sum_wherever_it_is_cut) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 60; ++size) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(random());
    const std::uint64_t whole = content_sum(text, 0);
    BOOST_TEST(whole < (std::uint64_t{1} << 61) - 1);
    for (std::size_t first = 0; first <= size; ++first) {
      for (std::size_t second = first; second <= size; ++second) {
        const std::string_view view = text;
        const std::uint64_t ends =
            add_content_sums(content_sum(view.substr(second), second), content_sum(view.substr(0, first), 0));
        BOOST_REQUIRE_EQUAL(add_content_sums(ends, content_sum(view.substr(first, second - first), first)), whole);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(words_of_seven_bytes_are_coefficients_of_a_polynomial_modulo_a_prime) {
  __extension__ using Wide = unsigned __int128;
  constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;
  std::mt19937 random(2);
  std::string text(300, '\0');
  for (char& c : text) c = static_cast<char>(random());
  const std::uint64_t point = content_sum(std::string_view("\1"), 7);
  for (std::size_t offset = 0; offset < text.size(); ++offset) {
    Wide sum = 0, power = 1;
    for (std::size_t word = 0; word * 7 < text.size(); ++word) {
      Wide value = 0;
      for (std::size_t at = word * 7 + 7; at-- > word * 7;)
        value = value * 256 + (at >= offset && at < text.size() ? static_cast<unsigned char>(text[at]) : 0);
      sum = (sum + value * power) % prime;
      power = power * point % prime;
    }
    BOOST_REQUIRE_EQUAL(content_sum(std::string_view(text).substr(offset), offset), static_cast<std::uint64_t>(sum));
  }
}

BOOST_AUTO_TEST_CASE(texts_that_differ_in_a_byte_or_in_its_place_have_sums_of_their_own) {
  const std::string text = "a text of several words, each of eight bytes";
  std::set<std::uint64_t> sums{content_sum(text, 0)};
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = text;
      other[i] = static_cast<char>(other[i] ^ (1 << bit));
      BOOST_TEST(sums.insert(content_sum(other, 0)).second);
    }
  }
  for (std::uint64_t offset = 1; offset < 40; ++offset) BOOST_TEST(sums.insert(content_sum(text, offset)).second);
}

BOOST_AUTO_TEST_SUITE_END()
