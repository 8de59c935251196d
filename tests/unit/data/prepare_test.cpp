#include "data/prepare.hpp"

#include "config/command_line.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(prepare)

BOOST_AUTO_TEST_CASE(the_command_for_a_hint_leaves_defaults_out_and_quotes_what_a_shell_would_change) {
  PrepareConfig config;
  config.inputs = {"a.txt", "my texts/*.jsonl"};
  config.output = "out";
  BOOST_TEST(prepare_command(config) == "prepare-data a.txt 'my texts/*.jsonl' --output out");
  config.data.tokenizer = TokenizerChoice::parse("chars");
  config.data.validation = ValidationSplit::parse("tail:0.1");
  config.data.end_of_text = "it's";
  BOOST_TEST(prepare_command(config) ==
             "prepare-data a.txt 'my texts/*.jsonl' --output out --data.tokenizer chars --data.validation tail:0.1 "
             "--data.end_of_text 'it'\\''s'");
}

BOOST_AUTO_TEST_CASE(the_command_for_a_hint_says_every_option_of_the_data) {
  PrepareConfig config;
  config.inputs = {"a.txt"};
  config.output = "out";
  config.data = {TokenizerChoice::parse("gpt2"), "body", ValidationSplit::parse("hash:0.5"), 7, "x", 3};
  std::vector<std::string> arguments;  // no word of it needs quotes
  const std::string command = prepare_command(config);
  for (std::size_t begin = command.find(' ') + 1; begin != 0;) {
    const std::size_t end = command.find(' ', begin);
    arguments.push_back(command.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto parsed = parse_command_line<PrepareConfig>(arguments).config;
  BOOST_TEST((parsed.inputs == config.inputs && parsed.output == "out"));
  BOOST_TEST(parsed.data.tokenizer.text() == "gpt2");
  BOOST_TEST(parsed.data.text_field == "body");
  BOOST_TEST(parsed.data.validation.text() == "hash:0.5");
  BOOST_TEST(parsed.data.shard_tokens == 7);
  BOOST_TEST(parsed.data.end_of_text.value() == "x");
  BOOST_TEST(parsed.data.seed == 3);
}

BOOST_AUTO_TEST_SUITE_END()
