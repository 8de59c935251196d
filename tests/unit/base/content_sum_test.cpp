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
