#include "options/faces.hpp"
#include "config/finalize_config.hpp"
#include "config/inspect_config.hpp"
#include "config/prepare_config.hpp"
#include "config/reshard_config.hpp"
#include "config/train_config.hpp"
#include "sample_config.hpp"

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <regex>
#include <set>

using namespace lockstep;
using namespace lockstep::test;

namespace {

using Configs =
    boost::mpl::list<TrainConfig, PrepareConfig, InspectConfig, ReshardConfig, FinalizeConfig, SampleConfig>;

template <class Config>
DocumentedTool documented() {
  Config config;
  Declaration declaration;
  describe(declaration, config);
  return lockstep::document(tool_of(config), declaration);
}

/// The first group of each match; the element number of lists unified.
std::set<std::string> all_matches(const std::string& text, const char* pattern) {
  std::set<std::string> found;
  const std::regex regex(pattern, std::regex::multiline);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    found.insert(std::regex_replace((*at)[1].str(), std::regex("\\.(N|NAME)\\."), ".0."));
  }
  return found;
}

/// The spelled names that the declaration itself has: the oracle that the faces are compared with.
template <class Config>
std::set<std::string> declared() {
  Config config;
  Declaration own;
  describe(own, config);
  CommonOptions values;
  Declaration common;
  describe(common, values, tool_of(config));
  std::set<std::string> names;
  for (const Declaration* const declaration : {&own, &common}) {
    for (const Option& option : declaration->options()) {
      if (option.facts.hidden || option.facts.positional) continue;
      std::string name = "--" + option.path;
      if (name.back() == '_') name.pop_back();  // of an option with the name of a section
      if (option.path.find('.') == std::string::npos) std::replace(name.begin(), name.end(), '_', '-');
      names.insert(name);
      if (option.type.element.empty() || !option.type.element.front().fields) continue;
      for (const Option& field : *option.type.element.front().fields) names.insert(name + ".0." + field.path);
    }
  }
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(faces)

BOOST_AUTO_TEST_CASE_TEMPLATE(help_manual_and_completions_show_the_declared_options_and_no_others, Config, Configs) {
  const DocumentedTool tool = documented<Config>();
  const std::set<std::string> expected = declared<Config>();
  BOOST_TEST_REQUIRE(expected.size() > 8U);
  BOOST_TEST(all_matches(help_text(tool, std::string(help_all)), "^  (?:-., )?(--[A-Za-z0-9._-]+)") == expected,
             boost::test_tools::per_element());
  std::set<std::string> in_manual = all_matches(mdoc_options(tool), "^\\.It Fl (?:. , Fl )?\"?(-[A-Za-z0-9._-]+)");
  std::set<std::string> in_manual_spelled;
  for (const std::string& name : in_manual) in_manual_spelled.insert("-" + name);
  BOOST_TEST(in_manual_spelled == expected, boost::test_tools::per_element());
  BOOST_TEST(all_matches(bash_completion(tool), "^      (--[A-Za-z0-9._-]+)$") == expected,
             boost::test_tools::per_element());
  BOOST_TEST(all_matches(zsh_completion(tool), "^  '\\*?(--[A-Za-z0-9._-]+?)(?:=-?)?\\[") == expected,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(help_on_a_name_that_an_option_and_a_section_have_shows_both) {
  const std::string text = help_text(documented<TrainConfig>(), "sample");
  BOOST_TEST(text.find("--sample TEXT") != std::string::npos);
  BOOST_TEST(text.find("--sample.top_k") != std::string::npos);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(help_is_at_most_100_columns_wide_and_every_option_has_a_text, Config, Configs) {
  const DocumentedTool tool = documented<Config>();
  for (const std::string& line : [&] {
         std::vector<std::string> lines;
         std::string text = help_text(tool, std::string(help_all)) + help_text(tool, std::string(help_overview));
         for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
           lines.push_back(text.substr(0, end));
           text.erase(0, end + 1);
         }
         return lines;
       }()) {
    BOOST_TEST(line.size() <= 100U, line);
  }
  for (const DocumentedSection& section : tool.sections) {
    for (const DocumentedOption& option : section.options) {
      BOOST_TEST(option.brief.size() > 4U, option.spelling);
      BOOST_TEST(option.brief.size() <= most_brief, option.spelling << ": " << option.brief);
      BOOST_TEST(option.brief.back() != '.', option.spelling);
      BOOST_TEST((option.details.empty() || option.details.back() != '.'), option.spelling);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_sentence_of_the_manual_that_begins_with_a_name_keeps_its_case) {
  BOOST_TEST(capitalised("print the plan and exit") == "Print the plan and exit");
  BOOST_TEST(capitalised("never") == "Never");
  BOOST_TEST(capitalised("all, or some") == "All, or some");
  for (const char* text : {"records.jsonl only", "decay_steps as a fraction", "bfloat16", "interleaved_1f1b with more",
                           "fp32, or fp64 with it", ""})
    BOOST_TEST(capitalised(text) == text);
}

BOOST_AUTO_TEST_CASE(the_schema_states_types_ranges_and_choices) {
  SampleConfig config;
  Declaration declaration;
  describe(declaration, config);
  const Json schema = config_json_schema(tool_of(config), declaration);
  const Json& all = schema.at("properties").at("all").at("properties");
  BOOST_TEST((all.at("count").at("anyOf").at(0) == Json{{"type", "integer"}, {"minimum", 0.0}, {"maximum", 100.0}}));
  BOOST_TEST((all.at("rate").at("anyOf").at(0) == Json{{"type", "number"}, {"exclusiveMinimum", 0.0}}));
  BOOST_TEST((all.at("color").at("anyOf").at(0) == Json{{"enum", {"red", "green"}}}));
  BOOST_TEST((all.at("pair").at("anyOf").at(0).at("maxItems") == 2));
  BOOST_TEST((all.at("parts").at("anyOf").at(0).at("items").at("required") == Json::array({"name"})));
  BOOST_TEST((schema.at("additionalProperties") == Json(false)));
}

BOOST_AUTO_TEST_SUITE_END()
