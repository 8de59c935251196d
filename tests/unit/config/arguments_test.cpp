#include "sample_config.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;
using namespace lockstep::test;

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE(a_value_follows_as_the_next_word_or_after_an_equals_sign) {
  BOOST_TEST(parse({"--all.count", "5"}).config.all.count == 5);
  BOOST_TEST(parse({"--all.count=5"}).config.all.count == 5);
  BOOST_TEST(parse({"--all.word=a=b"}).config.all.word == "a=b");
  BOOST_TEST(parse({"--all.word="}).config.all.word.empty());
  BOOST_TEST(problem({"--all.rate", "-1"}) == "command line: all.rate: -1 is out of range: it must be greater than 0");
  BOOST_TEST(problem({"--all.count"}) == "command line: --all.count needs a value");
  BOOST_TEST(problem({"--all.count", "--force"}) == "command line: --all.count needs a value");
}

BOOST_AUTO_TEST_CASE(truths_outside_sections_are_flags_and_inside_take_a_word_if_it_is_one) {
  BOOST_TEST(parse({"--force"}).config.force);
  BOOST_TEST(!parse({"--no-force"}).config.force);
  BOOST_TEST(!parse({"--force=no"}).config.force);
  const Line line = parse({"--force", "no"});
  BOOST_TEST(line.config.force);
  BOOST_TEST(line.config.inputs == std::vector<std::string>{"no"}, boost::test_tools::per_element());
  BOOST_TEST(!parse({"--all.flag", "off"}).config.all.flag);
  BOOST_TEST(parse({"--all.flag", "input"}).config.inputs == std::vector<std::string>{"input"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_optional_value_comes_after_an_equals_sign_only) {
  BOOST_TEST(!parse({}).config.paint);
  BOOST_TEST((*parse({"--paint"}).config.paint == Color::green));
  BOOST_TEST((*parse({"-p"}).config.paint == Color::green));
  BOOST_TEST((*parse({"--paint=red"}).config.paint == Color::red));
  BOOST_TEST(parse({"--paint", "red"}).config.inputs.size() == 1U);
}

BOOST_AUTO_TEST_CASE(lists_are_json_or_repeated_values_and_replace_those_of_files) {
  Files files;
  files.write("a.yaml", "all: {names: [x, y, z]}\n");
  const auto names = [](const std::vector<std::string>& arguments) { return parse(arguments).config.all.names; };
  BOOST_TEST(names({"--config", "a.yaml", "--all.names", "b"}) == std::vector<std::string>{"b"},
             boost::test_tools::per_element());
  BOOST_TEST(names({"--all.names", "a, b", "--all.names=c"}) == (std::vector<std::string>{"a, b", "c"}),
             boost::test_tools::per_element());
  BOOST_TEST(names({"--all.names", R"(["a\n", "b"])"}) == (std::vector<std::string>{"a\n", "b"}),
             boost::test_tools::per_element());
  BOOST_TEST(names({"--all.names", "[]"}).empty());
  BOOST_TEST(parse({"--all.pair", "7", "--all.pair", "8"}).config.all.pair[1] == 8);
  for (const char* const pair : {"0.9,0.95", "(0.9, 0.95)", "0.9 0.95"}) {
    BOOST_TEST(problem({"--all.pair", pair}) ==
               fmt::format("command line: all.pair: \"{}\" is not a list: did you mean \"[0.9, 0.95]\"?", pair));
  }
  BOOST_TEST(problem({"--all.pair", "[1, 2, 3]"}) == "command line: all.pair: 3 values are given, 2 are expected");
}

BOOST_AUTO_TEST_CASE(an_element_of_a_list_is_set_after_all_files) {
  Files files;
  files.write("a.yaml", "all:\n  parts: [{name: x}, {name: y, weight: 2}]\n");
  const Line line =
      parse({"--all.parts.1.weight", "5", "--config", "a.yaml", "--all.parts.2.name=z", "--all.pair.0", "9"});
  BOOST_TEST_REQUIRE(line.config.all.parts.size() == 3U);
  BOOST_TEST(line.config.all.parts[0].weight == 1);
  BOOST_TEST(line.config.all.parts[1].weight == 5);
  BOOST_TEST(line.config.all.parts[2].name == "z");
  BOOST_TEST(line.config.all.pair[0] == 9);
  BOOST_TEST(line.config.all.pair[1] == 2);
  BOOST_TEST(origin_of(line.settings, "all.parts") == "a.yaml:2, command line");
  BOOST_TEST(problem({"--config", "a.yaml", "--all.parts.3.name", "q"}) ==
             "command line: there is no element 3.name: all.parts has 2");
  BOOST_TEST(problem({"--config", "a.yaml", "--all.parts.0.nmae", "q"}) ==
             "command line: all.parts.0: unknown key \"nmae\": did you mean \"name\"?");
}

BOOST_AUTO_TEST_CASE(a_scalar_given_twice_with_two_values_is_refused) {
  BOOST_TEST(problem({"--all.count", "1", "--all.count=2"}) == "command line: --all.count is given twice: 1 and 2");
  BOOST_TEST(problem({"--all.count", "1", "--all.count=1"}).empty());
}

BOOST_AUTO_TEST_CASE(unknown_options_are_refused_with_a_suggestion_and_their_value_is_no_argument) {
  BOOST_TEST(problem({"--all.coutn", "5"}) == "command line: unknown option --all.coutn: did you mean --all.count?");
  BOOST_TEST(problem({"--count", "5"}).find("did you mean --all.count?") != std::string::npos);
  BOOST_TEST(problem({"--dry-rnu"}) == "command line: unknown option --dry-rnu: did you mean --dry-run?");
  BOOST_TEST(problem({"--all"}) == "command line: all is a section: name one of its options, as in --all.KEY VALUE");
  BOOST_TEST(problem({"--counts", "5", "--all.count", "13"}) ==
             "command line: unknown option --counts: did you mean --all.count?");
  BOOST_TEST(problem({"-x"}) == "command line: unknown option -x");
  BOOST_TEST(problem({"--all.cou", "5"}).find("unknown option --all.cou") != std::string::npos);  // no abbreviation
}

BOOST_AUTO_TEST_CASE(an_option_without_its_hyphens_is_refused_with_the_option) {
  BOOST_TEST(problem({"all.count=5"}) ==
             "command line: unexpected argument \"all.count=5\": did you mean --all.count 5?");
  BOOST_TEST(problem({"force=no"}) == "command line: unexpected argument \"force=no\": did you mean --force no?");
  BOOST_TEST(problem({"all.pair.0=9"}) ==
             "command line: unexpected argument \"all.pair.0=9\": did you mean --all.pair.0 9?");
  for (const char* const word : {"year=2024/*.txt", "=5", "all.coutn=5", "a=b"})
    BOOST_TEST(parse({word}).config.inputs == std::vector<std::string>{word}, boost::test_tools::per_element());
  BOOST_TEST(parse({"--", "all.count=5"}).config.inputs == std::vector<std::string>{"all.count=5"},
             boost::test_tools::per_element());
  Files files;
  files.write("all.count=5", "a file of this name");
  BOOST_TEST(parse({"all.count=5"}).config.inputs == std::vector<std::string>{"all.count=5"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_option_of_ours_may_have_the_prefix_that_it_has_in_dialects) {
  BOOST_TEST(parse({"--lockstep.all.count", "5"}).config.all.count == 5);
  BOOST_TEST(parse({"--lockstep.all.pair.0=7"}).config.all.pair[0] == 7);
  BOOST_TEST(problem({"--lockstep.all.coutn", "5"}).find("unknown option --lockstep.all.coutn") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(words_after_two_hyphens_are_arguments) {
  BOOST_TEST(parse({"a", "--", "--force", "-x"}).config.inputs == (std::vector<std::string>{"a", "--force", "-x"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(shared_options_are_read_and_are_no_part_of_the_configuration) {
  const Line line = parse({"--dry-run", "--json", "--log-level", "debug", "--progress=never", "--color", "always"});
  BOOST_TEST(line.common.dry_run);
  BOOST_TEST(line.common.json);
  BOOST_TEST((line.common.log_level == LogLevel::debug));
  BOOST_TEST((line.common.progress == When::never));
  BOOST_TEST((line.common.color == When::always));
  BOOST_TEST(origin_of(line.settings, "dry_run").empty());
  BOOST_TEST(problem({"--log-level", "loud"}) ==
             "command line: --log-level: \"loud\" is not one of debug, info, warning, error");
}

BOOST_AUTO_TEST_CASE(a_single_wrong_option_is_explained_by_its_own_help) {
  try {
    parse({"--all.count", "many"});
    BOOST_ERROR("a wrong value was accepted");
  } catch (const Error& error) {
    BOOST_TEST(error.hint() == "--all.count INTEGER: a count (things; from 0 to 100; default: 3)");
  }
}

BOOST_AUTO_TEST_CASE(the_printed_configuration_says_where_values_came_from_and_reads_back_to_the_same) {
  Files files;
  files.write("a.yaml", "all:\n  rate: 5e-5\n  word: \"no\"\n  names: [\"a: b\", \"#c\"]\n  parts: [{name: x}]\n");
  const std::string printed = *parse({"--config", "a.yaml", "--print-config", "--all.time", "90s", "in"}).answer;
  BOOST_TEST(printed.find("  rate: 5.0e-05                               # a.yaml:2\n") != std::string::npos);
  BOOST_TEST(printed.find("  word: \"no\"                                  # a.yaml:3\n") != std::string::npos);
  BOOST_TEST(printed.find("  time: \"90s\"                                 # command line\n") != std::string::npos);
  BOOST_TEST(printed.find("  limit: null                                 # built-in\n") != std::string::npos);
  files.write("b.yaml", printed);
  const Line again = parse({"--config", "b.yaml", "--print-config"});
  const auto values = [](const std::string& text) {
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      result += line.substr(0, line.rfind("  # ")) + "\n";
      at = end + 1;
    }
    return result;
  };
  BOOST_TEST(values(*again.answer) == values(printed));
  const std::string changed = *parse({"--config", "a.yaml", "--print-config=changed"}).answer;
  BOOST_TEST(changed.find("count") == std::string::npos);
  BOOST_TEST(changed.find("rate") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(help_and_version_are_answered_whatever_else_is_wrong) {
  BOOST_TEST(parse({"--help", "--nonsense"}).answer->starts_with("usage: sample [OPTION...] INPUT...\n"));
  BOOST_TEST(parse({"-V"}).answer->starts_with("lockstep sample "));
  BOOST_TEST(parse({"--build-info"}).answer->find("compiler") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
