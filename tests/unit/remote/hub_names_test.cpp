#include "base/error.hpp"
#include "remote/file_pattern.hpp"
#include "remote/hub_cache.hpp"
#include "remote/hub_files.hpp"
#include "remote/hub_splits.hpp"

#include <boost/test/unit_test.hpp>

#include <fnmatch.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(hub_names)

namespace {

std::vector<std::string> parts(const std::string& word) {
  const auto reference = hub_reference(word);
  if (!reference) return {};
  return {reference->id, reference->revision, reference->files};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_word_names_a_dataset_its_revision_and_files) {
  using Parts = std::vector<std::string>;
  BOOST_TEST(parts("hf://datasets/o/n") == (Parts{"o/n", "", ""}));
  BOOST_TEST(parts("o/n") == (Parts{"o/n", "", ""}));
  BOOST_TEST(parts("hf://datasets/o/n@v1.0/data/*.jsonl") == (Parts{"o/n", "v1.0", "data/*.jsonl"}));
  BOOST_TEST(parts("hf://datasets/o/n@refs/convert/parquet/default/**") ==
             (Parts{"o/n", "refs/convert/parquet", "default/**"}));
  BOOST_TEST(parts("hf://datasets/o/n@refs/pr/7") == (Parts{"o/n", "refs/pr/7", ""}));
  BOOST_TEST(parts("hf://datasets/o/n@a%2Fb/c") == (Parts{"o/n", "a/b", "c"}));
  BOOST_TEST(parts("hf://datasets/o/n/data/") == (Parts{"o/n", "", "data"}));
  for (const std::string word : {"o", "o/n/m", "/o/n", "./n", "../n", "o/*.txt", "o/n@v1", "-", "o/..", "o n/x", ""})
    BOOST_TEST(parts(word).empty(), word);
  for (const std::string word :
       {"hf://datasets/o", "hf://datasets/", "hf://o/n", "hf:x", "hf://datasets/o/n@", "hf://datasets/o/n@../x",
        "hf://datasets/o/n@a%2F..%2Fb", "hf://datasets/../n", "hf://buckets/o/n"})
    BOOST_CHECK_THROW(parts(word), Error);
  BOOST_TEST(hub_reference("hf://datasets/o/n@v/x")->text() == "hf://datasets/o/n@v/x");
}

BOOST_AUTO_TEST_CASE(patterns_match_names_folders_and_any_depth) {
  for (const auto& [pattern, path, matches] :
       std::vector<std::tuple<std::string, std::string, bool>>{{"*.jsonl", "a.jsonl", true},
                                                               {"*.jsonl", "d/a.jsonl", false},
                                                               {"**/*.jsonl", "a.jsonl", true},
                                                               {"**/*.jsonl", "d/e/a.jsonl", true},
                                                               {"d", "d/e/a.jsonl", true},
                                                               {"d/*", "d/e/a.jsonl", true},
                                                               {"d/?.txt", "d/a.txt", true},
                                                               {"d/[ab].txt", "d/c.txt", false},
                                                               {"./d/a.txt", "d/a.txt", true},
                                                               {"da", "data/x", false},
                                                               {"d/**/x", "d/x", true},
                                                               {"d/**/x", "d/a/b/x", true},
                                                               {"d/**/x", "e/x", false},
                                                               {"**", "a/b", true},
                                                               {"*", ".hidden", false}})
    BOOST_TEST(matches_files(pattern, path) == matches, pattern + " " + path);
}

BOOST_AUTO_TEST_CASE(patterns_of_names_match_as_those_of_the_shell) {
  const std::string letters = "ab*?[]!-.";
  std::mt19937 draw(7);
  const auto drawn = [&](std::size_t kinds) {
    std::string text(draw() % 7, ' ');
    for (char& c : text) c = letters[draw() % kinds];
    return text;
  };
  int matched = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string pattern = drawn(letters.size()), name = drawn(letters.size());
    // What POSIX leaves open: ranges that end before they begin, [. of a class, and names of nothing.
    if (pattern.empty() || name.empty() || pattern == "**" || pattern == ".." ||
        pattern.find("[.") != std::string::npos || pattern.find("-") != std::string::npos)
      continue;
    const bool expected = ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) == 0;
    BOOST_TEST_REQUIRE(matches_files(pattern, name) == expected, pattern + " " + name);
    matched += expected ? 1 : 0;
  }
  BOOST_TEST(matched > 1000);
  std::string many;
  for (int i = 0; i < 200; ++i) many += "*a";
  BOOST_TEST(!matches_files(many + "b", std::string(400, 'a')));  // in time that grows as the square at most
}

BOOST_AUTO_TEST_CASE(files_that_names_announce_are_missed) {
  BOOST_TEST(announces_more({"data/train-00000-of-00002.parquet"}));
  BOOST_TEST(!announces_more({"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"}));
  BOOST_TEST(announces_more({"a/x-00000-of-00002.txt", "b/x-00001-of-00002.txt"}));
  BOOST_TEST(!announces_more({"train.jsonl", "a-of-b.jsonl", "x-0000-of-00002.txt"}));
}

BOOST_AUTO_TEST_CASE(a_file_of_a_snapshot_has_the_name_that_leads_to_it) {
  const std::string commit(40, 'a');
  const std::string path = "/cache/datasets--o--n.m/snapshots/" + commit + "/data/x.jsonl";
  BOOST_TEST(hub_name_of(path).value_or("") == "hf://datasets/o/n.m@" + commit + "/data/x.jsonl");
  BOOST_TEST(!hub_name_of("/cache/datasets--o--n/snapshots/main/x.jsonl"));
  BOOST_TEST(!hub_name_of("data/x.jsonl"));
}

BOOST_AUTO_TEST_SUITE_END()
