#include "tokenizer/piece_cache.hpp"
#include "tokenizer/piece_pattern.hpp"
#include "unicode/utf8.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(pieces)

namespace {

/// The regular expression of a rule by PCRE2, of which \s has U+180E, which is none of Unicode's white space.
class Expression {
 public:
  explicit Expression(PieceRule rule) : code_(compiled(expression_of(rule)), pcre2_code_free) {}
  std::size_t end_of_piece(std::string_view text, std::size_t begin) const {
    const int found = pcre2_match(code_.get(), units(text), text.size(), begin, PCRE2_ANCHORED, match_.get(), nullptr);
    BOOST_REQUIRE(found > 0);
    return pcre2_get_ovector_pointer(match_.get())[1];
  }

 private:
  static PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }
  static pcre2_code* compiled(std::string_view expression) {
    int error = 0;
    PCRE2_SIZE where = 0;
    pcre2_code* const code =
        pcre2_compile(units(expression), expression.size(), PCRE2_UTF | PCRE2_UCP, &error, &where, nullptr);
    BOOST_REQUIRE(code != nullptr);
    return code;
  }
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code_;
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match_{pcre2_match_data_create(1, nullptr),
                                                                             pcre2_match_data_free};
};

constexpr std::array all_rules{PieceRule::gpt2, PieceRule::llama3, PieceRule::qwen2, PieceRule::o200k};

std::string random_text(std::mt19937& random, const std::u32string& characters, std::size_t length) {
  std::string text;
  for (std::size_t i = 0; i < length; ++i) append_code_point(text, characters[random() % characters.size()]);
  return text;
}

// Few in a page, of many pages; assigned in every version of Unicode that PCRE2 knows.
std::u32string many_characters() {
  std::u32string characters;
  for (char32_t c = 0; c < 0xD800; c += c < 0x300 ? 1 : 37) {
    if (c != 0x180E && !(c >= 0xA7C0 && c < 0xA7E0) && !(c >= 0x1C80 && c < 0x1CC0)) characters.push_back(c);
  }
  for (char32_t c = 0x1F300; c < 0x1F600; c += 5) characters.push_back(c);
  for (char32_t c = 0x20000; c < 0x2A000; c += 511) characters.push_back(c);
  return characters;
}

}  // namespace

const std::vector<std::u32string> alphabets = {U"'stmdrevlx ",
                                               U"''  sl\n",
                                               U" \t\n\r\v\f\u0085\u00A0\u2003\u3000\u200B",
                                               U"ab \n\u2003",
                                               U"a1.é² \u0301\n",
                                               U"don't we'll I've 1999—日本語 ½٣",
                                               U"aAbBéÉǅʰ日\u0301 .'sſ/\r\n",
                                               U"123٣½ a",
                                               many_characters()};

BOOST_AUTO_TEST_CASE(pieces_are_those_of_the_regular_expression) {
  for (const PieceRule rule : all_rules) {
    const PieceCutter cutter(rule);
    const Expression expression(rule);
    std::mt19937 random(11);
    for (int round = 0; round < 20000; ++round) {
      const std::string text =
          random_text(random, alphabets[static_cast<std::size_t>(round) % alphabets.size()], 1 + random() % 40);
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = cutter.end_of_piece(text, begin);
        BOOST_REQUIRE_EQUAL(end, expression.end_of_piece(text, begin));
        begin = end;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_text_cut_as_its_rule_allows_has_the_same_pieces_whatever_follows) {
  const auto ends_of = [](const PieceCutter& cutter, const std::string& text, std::size_t from) {
    std::vector<std::size_t> ends;
    for (std::size_t at = from; at < text.size();) ends.push_back(at = cutter.end_of_piece(text, at));
    return ends;
  };
  for (const PieceRule rule : all_rules) {
    const PieceCutter cutter(rule);
    std::mt19937 random(5);
    int cuts = 0;
    for (int round = 0; round < 20000; ++round) {
      const std::u32string& alphabet = alphabets[static_cast<std::size_t>(round) % alphabets.size()];
      const std::string head = random_text(random, alphabet, 1 + random() % 20);
      const std::size_t cut = last_piece_cut(rule, CutBefore::space_or_line_end, head);
      if (cut == 0) continue;
      ++cuts;
      const std::string whole = head + random_text(random, alphabet, random() % 10);
      std::vector<std::size_t> parts = ends_of(cutter, whole.substr(0, cut), 0);
      const std::vector<std::size_t> rest = ends_of(cutter, whole, cut);
      parts.insert(parts.end(), rest.begin(), rest.end());
      BOOST_REQUIRE(parts == ends_of(cutter, whole, 0));
    }
    BOOST_TEST(cuts > 4000);
    BOOST_TEST(last_piece_cut(rule, CutBefore::space_or_line_end, "a.\nb") == (rule == PieceRule::gpt2 ? 2u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(keys_of_pieces_are_equal_only_if_the_pieces_are_wherever_they_lie) {
  std::mt19937 random(3);
  const std::string text = random_text(random, std::u32string{0, U'a'}, 400);
  std::unordered_map<std::string, PieceKey> seen;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    const std::size_t longest = std::min(PieceKey::longest_piece, text.size() - begin);
    for (std::size_t size = 1; size <= longest; ++size) {
      const std::string piece = text.substr(begin, size);
      const PieceKey key = key_of_piece(text, begin, begin + size);
      BOOST_REQUIRE((key == seen.emplace(piece, key).first->second));
      BOOST_REQUIRE((key == key_of_piece(piece, 0, size)));
    }
  }
  for (auto one = seen.begin(); one != seen.end(); ++one) {
    for (auto other = seen.begin(); other != one; ++other) BOOST_REQUIRE(!(one->second == other->second));
  }
}

BOOST_AUTO_TEST_CASE(a_cache_met_by_more_pieces_than_it_has_places_gives_right_ids_or_none) {
  PieceCache cache;
  const auto entry_of = [](std::int32_t number) {
    const std::string digits = std::to_string(number);
    return PieceCache::Entry{key_of_piece(digits + " and what follows", 0, digits.size()),
                             1 + static_cast<std::uint32_t>(number) % 3,
                             {number, number + 1, number + 2}};
  };
  BOOST_TEST((cache.find(entry_of(0).key) == nullptr));
  int found = 0;
  constexpr std::int32_t pieces = 200'000;
  for (std::int32_t number = 0; number < pieces; ++number) {
    cache.insert(entry_of(number));
    for (const std::int32_t asked : {number, number / 2}) {
      const PieceCache::Entry expected = entry_of(asked);
      const PieceCache::Entry* const entry = cache.find(expected.key);
      BOOST_REQUIRE(entry != nullptr || asked != number);
      if (entry == nullptr) continue;
      ++found;
      BOOST_REQUIRE(entry->ids == expected.ids && entry->id == expected.id);
    }
  }
  BOOST_TEST(found > pieces);
  BOOST_TEST(found < 2 * pieces);
}

BOOST_AUTO_TEST_SUITE_END()
