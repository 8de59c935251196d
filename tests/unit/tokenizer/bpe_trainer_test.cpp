// Training of byte-level BPE against its definition, and pieces counted against a plain map.
#include "tokenizer/bpe_trainer.hpp"

#include "tokenizer/byte_level.hpp"
#include "tokenizer/piece_counts.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(bpe_trainer)

using Words = std::map<std::string, std::uint64_t>;
using Merges = std::vector<std::pair<std::string, std::string>>;

namespace {

TrainedBpe trained(const Words& words, std::int64_t vocabulary, std::uint64_t min_count) {
  std::vector<CountedPiece> pieces;
  for (const auto& [word, count] : words) pieces.push_back({word, count});
  return train_bpe(pieces, {vocabulary, min_count, {"<end>"}}, [](std::int64_t) {});
}

// By the definition: count all pairs anew for each merge.
Merges merges_by_definition(const Words& words, std::size_t most, std::int64_t min_count) {
  std::map<std::string, int> ids;
  std::vector<std::pair<std::vector<std::string>, std::int64_t>> texts;
  std::vector<char32_t> letters;
  for (int byte = 0; byte < 256; ++byte) letters.push_back(character_of_byte(static_cast<std::uint8_t>(byte)));
  std::ranges::sort(letters);
  for (int byte = 0; byte < 256; ++byte) {
    const auto letter = character_of_byte(static_cast<std::uint8_t>(byte));
    ids[to_byte_level(std::string(1, static_cast<char>(byte)))] =
        1 + static_cast<int>(std::ranges::find(letters, letter) - letters.begin());
  }
  for (const auto& [word, count] : words) {
    std::vector<std::string> tokens;
    for (const char byte : word) tokens.push_back(to_byte_level(std::string(1, byte)));
    texts.emplace_back(tokens, static_cast<std::int64_t>(count));
  }
  Merges merges;
  std::size_t made = 0;
  while (made < most) {
    std::map<std::pair<std::string, std::string>, std::int64_t> counts;
    for (const auto& [tokens, count] : texts) {
      for (std::size_t i = 0; i + 1 < tokens.size(); ++i) counts[{tokens[i], tokens[i + 1]}] += count;
    }
    const auto later = [&](const auto& a, const auto& b) {
      if (a.second != b.second) return a.second < b.second;
      return std::pair(ids[a.first.first], ids[a.first.second]) > std::pair(ids[b.first.first], ids[b.first.second]);
    };
    const auto best = std::ranges::max_element(counts, later);
    if (best == counts.end() || best->second < min_count) break;
    const auto [left, right] = best->first;
    merges.emplace_back(left, right);
    if (ids.emplace(left + right, 257 + static_cast<int>(made)).second) ++made;
    for (auto& [tokens, count] : texts) {
      std::vector<std::string> joined;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        const bool joins = i + 1 < tokens.size() && tokens[i] == left && tokens[i + 1] == right;
        joined.push_back(joins ? left + right : tokens[i]);
        i += joins ? 1 : 0;
      }
      tokens = joined;
    }
  }
  return merges;
}

std::string random_word(std::mt19937_64& random, std::string_view letters, std::size_t longest) {
  std::string word;
  const std::size_t size = 1 + random() % longest;
  while (word.size() < size) word.push_back(letters[random() % letters.size()]);
  return word;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_merge_is_of_a_pair_that_occurs_most_often_with_the_lowest_ids) {
  std::mt19937_64 random(1);
  for (int corpus = 0; corpus < 200; ++corpus) {
    const std::string_view letters = std::string_view("ab\xff c").substr(0, 1 + random() % 5);
    Words words;
    for (std::size_t word = random() % 30; word-- > 0;)
      words[random_word(random, letters, 1 + random() % 14)] += 1 + random() % 3;
    const std::uint64_t min_count = 1 + random() % 3;
    const std::size_t most = random() % 60;
    const TrainedBpe bpe = trained(words, 257 + static_cast<std::int64_t>(most), min_count);
    BOOST_REQUIRE(bpe.model.merges == merges_by_definition(words, most, static_cast<std::int64_t>(min_count)));
  }
}

BOOST_AUTO_TEST_CASE(tokens_have_the_ids_of_special_ones_then_bytes_then_merges_and_are_counted) {
  const TrainedBpe bpe = trained({{"abab", 3}, {"ab", 1}, {"c", 5}}, 259, 1);
  const auto& vocabulary = bpe.model.vocabulary;
  BOOST_REQUIRE_EQUAL(vocabulary.size(), 259);
  BOOST_TEST(vocabulary[0].first == "<end>");
  BOOST_TEST(vocabulary[1].first == "!");
  BOOST_TEST(vocabulary[257].first == "ab");
  BOOST_TEST(vocabulary[258].first == "abab");
  BOOST_TEST(bpe.tokens == 3 + 1 + 5);
  for (std::size_t id = 0; id < vocabulary.size(); ++id) BOOST_TEST(vocabulary[id].second == static_cast<int>(id));
}

BOOST_AUTO_TEST_CASE(a_corpus_with_too_few_pairs_gives_a_smaller_vocabulary) {
  BOOST_TEST(trained({{"ab", 2}, {"cd", 1}}, 1000, 2).model.merges.size() == 1);
  BOOST_TEST(trained({}, 1000, 1).model.vocabulary.size() == 257);
}

BOOST_AUTO_TEST_CASE(pieces_of_all_lengths_are_counted_and_counting_begins_anew) {
  std::mt19937_64 random(2);
  PieceCounts counts;
  for (int turn = 0; turn < 2; ++turn) {
    std::map<std::string, std::uint64_t> expected;
    for (int i = 0; i < 40000; ++i) {
      const std::string piece =
          random_word(random, i % 3 == 0 ? "ab" : std::string_view("\0ab", 3), i % 100 == 0 ? 40 : 17);
      ++expected[piece];
      const std::string text = "x" + piece + (i % 2 == 0 ? "behind it" : "");
      counts.add(text, 1, 1 + piece.size());
    }
    auto found = counts.take();
    std::ranges::sort(found);
    BOOST_REQUIRE((found == std::vector<std::pair<std::string, std::uint64_t>>(expected.begin(), expected.end())));
    BOOST_TEST(counts.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
