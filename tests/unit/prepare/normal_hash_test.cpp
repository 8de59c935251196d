#include "prepare/normal_hash.hpp"

#include <boost/test/unit_test.hpp>

#include <random>
#include <string>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(normal_hashes)

namespace {
Hash128 of(const std::string& text, bool caseless = false) { return NormalHash(text, caseless).digest(); }
}  // namespace

BOOST_AUTO_TEST_CASE(white_space_counts_as_one_space_and_at_the_ends_as_none) {
  const std::string plain = "a word and more";
  for (const char* text : {" a word and more", "a\tword\r\n and\u00A0\u3000more\n\n", "\u2028a word and more "})
    BOOST_TEST((of(text) == of(plain)));
  for (const char* text : {"aword and more", "a word and mor", "a word and more.", "A word and more", ""})
    BOOST_TEST((of(text) != of(plain)));
  BOOST_TEST((of(" \n ") == of("")));
  BOOST_TEST((of(std::string(1, '\0')) != of("")));
}

BOOST_AUTO_TEST_CASE(caseless_sees_letters_as_lower_case) {
  BOOST_TEST((of("ÉTÉ Straße", true) == of("été straße", true)));
  BOOST_TEST((of("ÉTÉ", false) != of("été", false)));
  BOOST_TEST((of("été", true) == of("été", false)));
}

BOOST_AUTO_TEST_CASE(parts_make_the_hash_of_the_whole_wherever_it_is_cut) {
  std::mt19937_64 random(4);
  const std::vector<std::string> letters{" ", " ", "\n", "\t", "a", "b", "é", "日", "\u3000"};
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> text;
    for (std::size_t size = random() % 12; text.size() < size;) text.push_back(letters[random() % letters.size()]);
    std::string whole, part;
    NormalHash sum;
    for (const std::string& letter : text) {
      whole += letter;
      part += letter;
      if (random() % 3 == 0) sum.add(NormalHash(std::exchange(part, {}), false));
    }
    sum.add(NormalHash(part, false));
    BOOST_REQUIRE((sum.digest() == of(whole)));
  }
}

BOOST_AUTO_TEST_SUITE_END()
