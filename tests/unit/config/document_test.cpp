#include "base/text.hpp"
#include "sample_config.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace lockstep;
using namespace lockstep::test;

namespace {

SampleConfig from_yaml(const std::string& yaml) {
  Files files;
  files.write("c.yaml", yaml);
  return parse({"--config", "c.yaml"}).config;
}

std::string yaml_problem(const std::string& yaml) {
  Files files;
  files.write("c.yaml", yaml);
  return problem({"--config", "c.yaml"});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(document)

BOOST_AUTO_TEST_CASE(every_type_is_read_from_a_file) {
  const SampleConfig config = from_yaml(
      "all:\n  flag: no\n  count: 7\n  rate: 5e-5\n  word: hello\n  color: green\n  limit: 2.5\n  names: [a, b]\n  "
      "pair: [3, 4.5]\n"
      "  parts:\n    - {name: x}\n    - name: y\n      weight: 2\n  time: 1h30m\n  size: 64MiB\n");
  BOOST_TEST(!config.all.flag);
  BOOST_TEST(config.all.count == 7);
  BOOST_TEST(config.all.rate == 5e-5);
  BOOST_TEST(config.all.word == "hello");
  BOOST_TEST((config.all.color == Color::green));
  BOOST_TEST(*config.all.limit == 2.5);
  BOOST_TEST(config.all.names == (std::vector<std::string>{"a", "b"}), boost::test_tools::per_element());
  BOOST_TEST(config.all.pair[0] == 3);
  BOOST_TEST(config.all.pair[1] == 4.5);
  BOOST_TEST_REQUIRE(config.all.parts.size() == 2U);
  BOOST_TEST(config.all.parts[0].weight == 1);
  BOOST_TEST(config.all.parts[1].name == "y");
  BOOST_TEST(config.all.parts[1].weight == 2);
  BOOST_TEST(config.all.time.value == 5400);
  BOOST_TEST(config.all.size.bytes == 64U * 1024 * 1024);
}

BOOST_AUTO_TEST_CASE(truth_words_are_truths_where_a_truth_is_expected_and_text_where_text_is) {
  for (const char* const word : {"yes", "on", "true", "True", "YES"})
    BOOST_TEST(from_yaml(std::string("all: {flag: ") + word + "}").all.flag);
  for (const char* const word : {"no", "off", "false", "OFF"})
    BOOST_TEST(!from_yaml(std::string("all: {flag: ") + word + "}").all.flag);
  BOOST_TEST(from_yaml("all: {word: no}").all.word == "no");
  BOOST_TEST(from_yaml("all: {word: 5e-5}").all.word == "5e-5");
  BOOST_TEST(from_yaml("all: {word: 010}").all.word == "010");
}

BOOST_AUTO_TEST_CASE(counts_may_be_written_with_exponents_and_separators) {
  BOOST_TEST(from_yaml("all: {count: 1e2}").all.count == 100);
  BOOST_TEST(from_yaml("all: {count: 1_0}").all.count == 10);
  BOOST_TEST(from_yaml("all: {count: +5}").all.count == 5);
  BOOST_TEST(yaml_problem("all: {count: 1.5}") == "c.yaml:1: all.count: \"1.5\" is not a whole number");
  BOOST_TEST(yaml_problem("all: {count: .nan}") == "c.yaml:1: all.count: \".nan\" is not a whole number");
  BOOST_TEST(yaml_problem("all: {rate: inf}") == "c.yaml:1: all.rate: \"inf\" is not a number");
}

BOOST_AUTO_TEST_CASE(each_wrong_value_is_named_with_its_place_and_what_is_expected) {
  BOOST_TEST(yaml_problem("all:\n  count: 101\n") ==
             "c.yaml:2: all.count: 101 is out of range: it must be from 0 to 100");
  BOOST_TEST(yaml_problem("all:\n  rate: 0\n") == "c.yaml:2: all.rate: 0 is out of range: it must be greater than 0");
  BOOST_TEST(yaml_problem("all:\n  color: gren\n") ==
             "c.yaml:2: all.color: \"gren\" is not one of red, green: did you mean \"green\"?");
  BOOST_TEST(yaml_problem("all:\n  flag: maybe\n") == "c.yaml:2: all.flag: \"maybe\" is not true or false");
  BOOST_TEST(yaml_problem("all:\n  count: \"7\"\n") ==
             "c.yaml:2: all.count: \"7\" is in quotes, so it is text; a whole number is expected");
  BOOST_TEST(yaml_problem("all:\n  word: [a]\n") == "c.yaml:2: all.word: a list is given where text is expected");
  BOOST_TEST(yaml_problem("all:\n  pair: 0.9,0.95\n") ==
             "c.yaml:2: all.pair: \"0.9,0.95\" is not a list: did you mean \"[0.9, 0.95]\"?");
  BOOST_TEST(yaml_problem("all:\n  limit: none\n") ==
             "c.yaml:2: all.limit: \"none\" is not a number: did you mean null?");
  BOOST_TEST(yaml_problem("all:\n  pair: [1]\n") == "c.yaml:2: all.pair: 1 value is given, 2 are expected");
  BOOST_TEST(yaml_problem("all:\n  pair: [1, x]\n") == "c.yaml:2: all.pair.1: \"x\" is not a number");
  BOOST_TEST(yaml_problem("all:\n  time: soon\n") ==
             "c.yaml:2: all.time: \"soon\" is not of the form DURATION: 90s, 15m or 1h30m");
  BOOST_TEST(yaml_problem("all:\n  parts:\n    - weight: 1\n") == "c.yaml:3: all.parts.0: the key \"name\" is missing");
  BOOST_TEST(yaml_problem("all:\n  parts:\n    - {name: x, wieght: 1}\n") ==
             "c.yaml:3: all.parts.0: unknown key \"wieght\": did you mean \"weight\"?");
  BOOST_TEST(yaml_problem("all:\n  parts:\n    - {name: x, weight: -1}\n") ==
             "c.yaml:3: all.parts.0.weight: -1 is out of range: it must be at least 0");
}

BOOST_AUTO_TEST_CASE(an_unknown_key_is_refused_with_a_suggestion) {
  BOOST_TEST(yaml_problem("all:\n  cuont: 1\n") == "c.yaml:2: unknown key \"all.cuont\": did you mean \"all.count\"?");
  BOOST_TEST(yaml_problem("count: 1\n") == "c.yaml:1: unknown key \"count\": did you mean \"all.count\"?");
  BOOST_TEST(yaml_problem("all.count: 1\n") ==
             "c.yaml:1: in a file, \"all.count\" is written as \"count\" below \"all:\"");
  BOOST_TEST(yaml_problem("al:\n  count: 1\n") == "c.yaml:1: unknown key \"al\": did you mean \"all\"?");
  BOOST_TEST(yaml_problem("all:\n  pain: 1\n") == "c.yaml:2: unknown key \"all.pain\": did you mean \"all.pair\"?");
  BOOST_TEST(yaml_problem("all:\n  coat: 1\n") == "c.yaml:2: unknown key \"all.coat\"");  // two letters of four
  BOOST_TEST(yaml_problem("zebra_crossing: 1\n") == "c.yaml:1: unknown key \"zebra_crossing\"");
  BOOST_TEST(yaml_problem("all: 3\n") == "c.yaml:1: \"all\" is a section: \"3\" is given where its keys are expected");
}

BOOST_AUTO_TEST_CASE(two_values_and_broken_yaml_are_named_with_their_lines) {
  BOOST_TEST(yaml_problem("all:\n  count: 1\n  flag: no\n  count: 2\n") ==
             "c.yaml:4: \"count\" is given twice, first at c.yaml:2");
  const std::string broken = yaml_problem("all:\n  count: [1\n");
  BOOST_TEST(broken.starts_with("c.yaml:"));
  BOOST_TEST(broken.find("not valid YAML") != std::string::npos);
  BOOST_TEST(yaml_problem("a: 1\n---\nb: 2\n").find("a second YAML document begins here") != std::string::npos);
  BOOST_TEST(yaml_problem("[1, 2]\n") == "c.yaml: a configuration file is a map of sections");
}

BOOST_AUTO_TEST_CASE(a_quote_that_is_not_closed_is_named_with_its_line) {
  BOOST_TEST(yaml_problem("all:\n  word: \"data\n  count: 5\n") ==
             "c.yaml:2: the quote \" that opens here is never closed");
  BOOST_TEST(yaml_problem("all:\n  flag: no  # it's\n  word: 'data\n  count: 5\n") ==
             "c.yaml:3: the quote ' that opens here is never closed");
  BOOST_TEST(yaml_problem("\xEF\xBB\xBF\"all:\n  count: 5\n") ==
             "c.yaml:1: the quote \" that opens here is never closed");
  BOOST_TEST(problem({"--all.names", R"(["a)"}) ==
             "command line: all.names: the quote \" that opens here is never closed");
}

BOOST_AUTO_TEST_CASE(no_scalar_reaches_over_lines_that_read_like_keys) {
  const auto closes = [](int from, const char* quote, int to, int over, const char* key) {
    return fmt::format(
        "c.yaml:{}: the quote {} that opens here closes only in line {}, but line {} looks like a key "
        "(\"{}\"): close it in its own line, or write text of several lines after \"|\"",
        from, quote, to, over, key);
  };
  // Each of these is valid YAML, with count as built in.
  BOOST_TEST(yaml_problem("all:\n  word: 'data\n  count: 5\n  names: it''s'\n") == closes(2, "'", 4, 3, "count: 5"));
  BOOST_TEST(yaml_problem("all:\n  word: \"a \\\" b\n\n    \"count\": 5\"\n") ==
             closes(2, "\"", 4, 4, "\"count\": 5\""));
  BOOST_TEST(yaml_problem("all:\n  word: &x !!str \"data\n  count: 5\"\n") == closes(2, "\"", 3, 3, "count: 5\""));
  // Here the text behind the second quote is an error of its own, which would not name the first.
  BOOST_TEST(yaml_problem("all:\n  word: \"data\n  count: 5\n  names: \"a\"\n") == closes(2, "\"", 4, 3, "count: 5"));
  BOOST_TEST(yaml_problem("all:\n  names:\n  - \"a\n  - b\"\n") == closes(3, "\"", 4, 4, "- b\""));
  const auto goes_on = [](int from, int over, const char* key) {
    return fmt::format(
        "c.yaml:{}: the value that begins here continues in line {}, which looks like a key (\"{}\"): put a space "
        "after "
        "the colon of a key, indent it as its neighbours, close brackets before it, and write text of several lines "
        "after \"|\"",
        from, over, key);
  };
  BOOST_TEST(yaml_problem("all:\n  word: data\n    count:5\n") == goes_on(2, 3, "count:5"));
  BOOST_TEST(yaml_problem("all:\n  word: data\n    count = 5\n") == goes_on(2, 3, "count = 5"));
  BOOST_TEST(yaml_problem("all:\n  word: data\n\n    - x\n") == goes_on(2, 4, "- x"));
}

BOOST_AUTO_TEST_CASE(text_of_several_lines_is_read_where_it_holds_no_keys_or_says_that_it_is_text) {
  BOOST_TEST(from_yaml("all:\n  word: |\n    count: 5\n    x\n  count: 7\n").all.word == "count: 5\nx\n");
  BOOST_TEST(from_yaml("all:\n  word: >-\n    count: 5\n    x\n").all.word == "count: 5 x");
  BOOST_TEST(from_yaml("all:\n  word: \"once upon\n    a time\"\n  count: 7\n").all.word == "once upon a time");
  BOOST_TEST(from_yaml("all:\n  word: see\n    https://a.b/c\n    it's so\n  count: 7\n").all.word ==
             "see https://a.b/c it's so");
  BOOST_TEST(from_yaml("all: {word: \"a: b\", names: ['c: d',\n  \"e: f\"]}\n").all.names.size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_is_no_yaml_is_explained_in_words_of_our_own) {
  const auto wrong = [](int line, const std::string& text) {
    return fmt::format("c.yaml:{}: not valid YAML: {}", line, text);
  };
  BOOST_TEST(yaml_problem("all:\n\tcount: 5\n") == wrong(2, "a tab indents this line: use spaces"));
  BOOST_TEST(yaml_problem("all:\n  count: 5\n  \tflag: no\n") == wrong(3, "a tab indents this line: use spaces"));
  BOOST_TEST(yaml_problem("all:\n  names: [a, b\n").find("a \"[\" is not closed") != std::string::npos);
  BOOST_TEST(yaml_problem("all:\n  names: [a, b\n  count: 5\n").find("close brackets before it") != std::string::npos);
  BOOST_TEST(yaml_problem("all: {count: 5\n").find("a \"{\" is not closed") != std::string::npos);
  BOOST_TEST(yaml_problem("all:\n  count: 5\n flag: no\n").find("does not continue the keys above") !=
             std::string::npos);
  BOOST_TEST(yaml_problem("all:\n  word: \"a\\qb\"\n").find("a backslash begins an escape sequence") !=
             std::string::npos);
  BOOST_TEST(yaml_problem("all:\n  word: a: b\n").find("a second colon in one line") != std::string::npos);
  BOOST_TEST(yaml_problem("all:\n  word: @a\n").find("put a value that begins with one of @ ` % in quotes") !=
             std::string::npos);
  BOOST_TEST(yaml_problem("all:\n  word: *a\n").find("names an anchor") != std::string::npos);
  BOOST_TEST(yaml_problem("all: ]\n").find("a bracket closes here without an opening one") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(all_problems_are_reported_at_once) {
  Files files;
  files.write("a.yaml", "all:\n  count: many\n  colour: red\n");
  files.write("b.yaml", "all: {rate: -1}\n");
  const std::string expected =
      "5 problems in the configuration\n"
      "command line: unknown option --al.flag: did you mean --all.flag?\n"
      "a.yaml:3: unknown key \"all.colour\": did you mean \"all.color\"?\n"
      "a.yaml:2: all.count: \"many\" is not a whole number\n"
      "b.yaml:1: all.rate: -1 is out of range: it must be greater than 0\n"
      "command line: all.time: \"x\" is not of the form DURATION: 90s, 15m or 1h30m";
  const auto sorted_lines = [](const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    std::sort(lines.begin(), lines.end());
    return lines;
  };
  const std::string found = problem({"--config", "a.yaml", "--config=b.yaml", "--al.flag", "no", "--all.time", "x"});
  BOOST_TEST(sorted_lines(found) == sorted_lines(expected), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_contradiction_names_where_its_options_came_from_unless_they_are_wrong_already) {
  Files files;
  files.write("a.yaml", "all:\n  count: 13\n");
  BOOST_TEST(problem({"--config", "a.yaml"}) == "13 is bad luck (all.count from a.yaml:2)");
  BOOST_TEST(problem({"--config", "a.yaml", "--all.count", "x"}) ==
             "command line: all.count: \"x\" is not a whole number");
}

BOOST_AUTO_TEST_CASE(presets_lie_below_the_file_that_names_them_and_later_files_above) {
  Files files;
  files.write("base.yaml", "all: {count: 1, word: base, color: green}\n");
  files.write("top.yaml", "preset: base.yaml\nall: {count: 2, names: [x, y]}\n");
  files.write("last.yaml", "all: {names: [z]}\n");
  const Line line = parse({"--config", "top.yaml", "--config", "last.yaml", "--all.word", "cli"});
  BOOST_TEST(line.config.all.count == 2);
  BOOST_TEST(line.config.all.word == "cli");
  BOOST_TEST((line.config.all.color == Color::green));
  BOOST_TEST(line.config.all.names == std::vector<std::string>{"z"}, boost::test_tools::per_element());
  BOOST_TEST(origin_of(line.settings, "all.count") == "top.yaml:2");
  BOOST_TEST(origin_of(line.settings, "all.word") == "command line");
  BOOST_TEST(origin_of(line.settings, "all.color") == "base.yaml:1");
  BOOST_TEST(origin_of(line.settings, "all.flag") == "built-in");
}

BOOST_AUTO_TEST_CASE(null_takes_back_what_lower_layers_said) {
  Files files;
  files.write("a.yaml", "all: {count: 9, limit: 4}\n");
  files.write("b.yaml", "all: {count: null, limit: ~}\n");
  const Line line = parse({"--config", "a.yaml", "--config", "b.yaml"});
  BOOST_TEST(line.config.all.count == 3);
  BOOST_TEST(!line.config.all.limit);
  BOOST_TEST(!parse({"--config", "a.yaml", "--all.limit", "null"}).config.all.limit);
}

BOOST_AUTO_TEST_CASE(a_dialect_or_a_preset_that_is_not_there_is_refused_by_name) {
  BOOST_TEST(from_yaml("dialect: lockstep\nall: {count: 4}\n").all.count == 4);
  BOOST_TEST(yaml_problem("preset: none.yaml\n") == "c.yaml:1: there is no preset file none.yaml");
  BOOST_TEST(yaml_problem("preset: c.yaml\n") == "c.yaml:1: preset c.yaml includes itself");
}

BOOST_AUTO_TEST_CASE(the_merge_key_puts_maps_under_the_keys_that_are_there) {
  const SampleConfig config = from_yaml(
      "all:\n  parts:\n    - &first {name: a, weight: 2}\n    - {<<: *first, name: b}\n"
      "    - {name: c, <<: [{weight: 5}, *first]}\n");
  BOOST_TEST_REQUIRE(config.all.parts.size() == 3U);
  BOOST_TEST(config.all.parts[1].name == "b");
  BOOST_TEST(config.all.parts[1].weight == 2);
  BOOST_TEST(config.all.parts[2].name == "c");
  BOOST_TEST(config.all.parts[2].weight == 5);
  BOOST_TEST(yaml_problem("all: {<<: 3}\n") == "c.yaml:1: \"<<\" must be followed by a map or a list of maps");
}

BOOST_AUTO_TEST_CASE(aliases_repeat_values_but_can_exhaust_neither_stack_nor_memory) {
  const SampleConfig config = from_yaml("all: {pair: &p [4, 5], limit: 1, names: *p}\n");
  BOOST_TEST(config.all.names == (std::vector<std::string>{"4", "5"}), boost::test_tools::per_element());
  BOOST_TEST(yaml_problem("all: &a [*a]\n").find("more than 32 levels of lists and maps") != std::string::npos);
  BOOST_TEST(yaml_problem("all: &a {count: *a}\n").find("more than 32 levels of lists and maps") != std::string::npos);
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c < 'l'; ++c) {
    const std::string alias = std::string("*") + static_cast<char>(c - 1);
    bomb += fmt::format("{0}: &{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", c, alias);
  }
  BOOST_TEST(yaml_problem(bomb).find("more than 10000 values") != std::string::npos);
  BOOST_TEST(yaml_problem("all: " + std::string(100000, '[')).find("not valid YAML") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_missing_file_is_the_only_problem_reported) {
  BOOST_TEST(problem({"--config", "/nowhere/x.yaml"}) == "cannot open /nowhere/x.yaml: no such file");
}

BOOST_AUTO_TEST_SUITE_END()
