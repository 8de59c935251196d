#include "prepare/preparation_key.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "options/option.hpp"
#include "tokenizer/tokenizers.hpp"

#include <boost/test/unit_test.hpp>

#include <initializer_list>
#include <set>
#include <string>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(preparation_keys)

const std::vector<InputFile> files{{"a.txt", TextFormat::text, Compression::none, 10},
                                   {"b.jsonl.gz", TextFormat::json_lines, Compression::gzip, 20}};

std::string key(const PrepareDataOptions& options, const std::vector<InputFile>& of = files,
                const std::vector<std::uint64_t>& sums = {1, 2}) {
  return to_hex(preparation_key(options, bytes_tokenizer().get(), "", of, sums));
}

/// A value of the option that is not the built-in one.
Json another_value(const Option& option) {
  const Json& built_in = option.built_in;
  switch (option.type.kind) {
    case OptionType::Kind::boolean: return built_in.is_null() || !built_in.get<bool>();
    case OptionType::Kind::integer: return built_in.is_null() ? 77 : built_in.get<std::int64_t>() + 1;
    case OptionType::Kind::number: return 0.5;
    case OptionType::Kind::text: return "another";
    case OptionType::Kind::choice:
      for (const std::string& choice : option.type.choices)
        if (choice != built_in) return choice;
      break;
    case OptionType::Kind::form:
      for (const char* const text : {"tail:0.5", "chars", "1/2", "5s"}) {
        try {
          option.type.check(text);
          return text;
        } catch (const Error&) {  // of another form
        }
      }
      break;
    case OptionType::Kind::list: return Json::array({"another"});
    case OptionType::Kind::group:
    case OptionType::Kind::map: break;
  }
  BOOST_FAIL("no value for " + option.path);
  return {};
}

BOOST_AUTO_TEST_CASE(each_option_of_preparation_changes_the_key_but_for_names_of_tokenizer_and_format) {
  PrepareDataOptions options;
  Declaration declaration;
  describe(declaration, options);
  std::set<std::string> keys{key({})};
  for (const Option& option : declaration.options()) {
    option.set(another_value(option));
    const bool is_new = keys.insert(key(options)).second;
    BOOST_TEST(is_new == (option.path != "tokenizer" && option.path != "format"), option.path);
    option.set(option.built_in);
    BOOST_TEST(key(options) == key({}), option.path);
  }
}

BOOST_AUTO_TEST_CASE(tokenizer_formats_order_and_content_change_the_key_and_names_of_files_do_not) {
  std::set<std::string> keys{key({})};
  const auto is_new = [&](const std::string& one) { return keys.insert(one).second; };
  std::vector<InputFile> other = files;
  other[0].path = "elsewhere.txt";
  BOOST_TEST(!is_new(key({}, other)));
  BOOST_TEST(is_new(key({}, files, {1, 3})));
  BOOST_TEST(is_new(key({}, {files[1], files[0]}, {2, 1})));
  BOOST_TEST(is_new(key({}, {files[0]}, {1})));
  other[0].bytes = 11;
  BOOST_TEST(is_new(key({}, other)));
  other = files;
  other[0].format = TextFormat::json_lines;
  BOOST_TEST(is_new(key({}, other)));
  other = files;
  other[1].compression = Compression::xz;
  BOOST_TEST(is_new(key({}, other)));
  BOOST_TEST(is_new(to_hex(preparation_key({}, bytes_tokenizer("<end>").get(), "", files, {1, 2}))));
  BOOST_TEST(is_new(to_hex(preparation_key({}, nullptr, "", files, {1, 2}))));
  BOOST_TEST(is_new(to_hex(preparation_key({}, bytes_tokenizer().get(), "a template", files, {1, 2}))));
}

BOOST_AUTO_TEST_CASE(changed_options_are_words_that_a_shell_takes_as_they_are) {
  PrepareDataOptions options;
  BOOST_TEST(changed_options(options) == "");
  options.validation = ValidationSplit::parse("tail:0.1");
  options.text_field = "the 'body'";
  options.shards = 3;
  BOOST_TEST(changed_options(options) ==
             R"(--data.text_field 'the '\''body'\''' --data.validation tail:0.1 --data.shards 3)");
}

BOOST_AUTO_TEST_SUITE_END()
