#include "options/documented.hpp"

#include "base/text.hpp"
#include "options/arguments.hpp"
#include "options/interpret.hpp"
#include "options/ranges.hpp"
#include "options/settings.hpp"

namespace lockstep {

namespace {

using Kind = OptionType::Kind;

std::string value_name_of(const OptionType& type) {
  switch (type.kind) {
    case Kind::boolean: return "BOOL";
    case Kind::integer: return "INTEGER";
    case Kind::number: return "NUMBER";
    case Kind::text: return "TEXT";
    case Kind::choice: return join(type.choices, "|");
    case Kind::form: return type.form.substr(0, type.form.find(": "));
    case Kind::list: return value_name_of(type.element.front());
    case Kind::group:
    case Kind::map: return "JSON";
  }
  throw Error(ExitCode::bug, "unknown OptionType::Kind");
}

std::string default_text(const Option& option) {
  if (option.built_in.is_null() && !option.facts.unset.empty()) return "default: " + option.facts.unset;
  if (!option.value_if_unset.is_null()) return "default: " + to_yaml(option.value_if_unset);
  const bool says_nothing = option.facts.required || option.built_in.is_null() || option.built_in == Json("") ||
                            option.built_in == Json::array() || option.built_in == Json::object();
  const bool flag = option.type.kind == Kind::boolean && option.path.find('.') == std::string::npos;
  return says_nothing || flag ? "" : fmt::format("default: {}", to_yaml(option.built_in));
}

std::string notes_of(const Option& option) {
  std::vector<std::string> notes;
  OptionFacts facts = option.facts;
  if (facts.max == most_count) facts.max.reset();  // no reader comes near it
  if (!facts.unit.empty()) notes.push_back(facts.unit);
  if (const std::string range = range_text(facts); !range.empty()) notes.push_back(range);
  const std::string& form = option.type.kind == Kind::list ? option.type.element.front().form : option.type.form;
  if (const std::size_t colon = form.find(": "); colon != std::string::npos) notes.push_back(form.substr(colon + 2));
  if (option.type.length) {
    notes.push_back(fmt::format("{} values", *option.type.length));
  } else if (option.type.kind == Kind::list && !facts.positional) {
    notes.emplace_back(facts.literal ? "may be repeated" : "a list: repeat the option, or give JSON");
  } else if (option.type.kind == Kind::map) {
    notes.emplace_back("a map by name: give JSON, or the keys of NAME; null takes NAME out");
  }
  if (facts.required) {
    std::vector<std::string> switches;
    for (const std::string& name : facts.needless_with) switches.push_back(name_in_messages(name));
    notes.push_back(switches.empty() ? "required" : "required, except with " + join(switches, " or "));
  }
  if (const std::string text = default_text(option); !text.empty()) notes.push_back(text);
  return join(notes, "; ");
}

DocumentedOption documented(const Option& option, const std::string& spelling, const std::string& key) {
  const bool list = option.type.kind == Kind::list;
  const OptionType& type = list ? option.type.element.front() : option.type;
  DocumentedOption result;
  result.spelling = spelling;
  if (!option.facts.command_line_only) result.key = key;
  result.letter = option.facts.letter;
  if (!option.facts.bare.empty()) {
    result.value = DocumentedOption::Value::after_equals;
  } else if (takes_next_word(option)) {
    result.value = DocumentedOption::Value::next_word;
  }
  if (result.value != DocumentedOption::Value::none) {
    result.value_name = lockstep::value_name_of(option);
    result.choices = type.kind == Kind::boolean ? std::vector<std::string>{"true", "false"} : type.choices;
    result.phrases = type.phrases;
  }
  result.brief = option.facts.brief;
  result.details = option.facts.details;
  result.notes = notes_of(option);
  result.completes = option.facts.completes;
  result.repeatable = list;
  result.on_resume = text_of(option.facts.on_resume);
  return result;
}

void add_documented(std::vector<DocumentedOption>& options, const Option& option) {
  options.push_back(documented(option, spelling_of(option.path), option.path));
  if (option.type.element.empty() || option.type.element.front().kind != Kind::group) return;
  const char* const element = option.type.kind == Kind::map ? "NAME" : "N";
  for (const Option& field : *option.type.element.front().fields) {
    const std::string key = fmt::format("{}.{}.{}", option.path, element, field.path);
    options.push_back(documented(field, "--" + key, key));
    options.back().value = DocumentedOption::Value::next_word;
    options.back().on_resume = text_of(option.facts.on_resume);
  }
}

}  // namespace

std::string value_name_of(const Option& option) {
  return option.facts.value_name.empty() ? value_name_of(option.type) : option.facts.value_name;
}

DocumentedTool document(const Tool& tool, const Declaration& declaration) {
  DocumentedTool result{.tool = tool, .positionals = {}, .sections = {}};
  DocumentedSection own{.name = "general", .title = "", .options = {}};
  for (const Option& option : declaration.options()) {
    if (option.facts.hidden || option.path.find('.') != std::string::npos) continue;
    if (option.facts.positional) {
      result.positionals.push_back(documented(option, value_name_of(option), option.path));
    } else {
      add_documented(own.options, option);
    }
  }
  if (!own.options.empty()) result.sections.push_back(std::move(own));
  for (const Declaration::Section& section : declaration.sections()) {
    result.sections.push_back({.name = section.name, .title = section.name + ": " + section.help, .options = {}});
    for (const Option& option : declaration.options()) {
      if (!option.facts.hidden && option.path.starts_with(section.name + "."))
        add_documented(result.sections.back().options, option);
    }
  }
  CommonOptions values;
  Declaration common;
  describe(common, values, tool);
  result.sections.push_back({.name = "common", .title = "common: options of all programs", .options = {}});
  for (const Option& option : common.options()) {
    result.sections.back().options.push_back(documented(option, spelling_of(option.path), ""));
  }
  return result;
}

std::string one_line_help(const Option& option) {
  const DocumentedOption text =
      documented(option, option.facts.positional ? value_name_of(option) : spelling_of(option.path), option.path);
  const char* const joint = text.value == DocumentedOption::Value::after_equals ? "=" : " ";
  const std::string value =
      text.value == DocumentedOption::Value::none || option.facts.positional ? "" : joint + text.value_name;
  return fmt::format("{}{}: {}{}", text.spelling, value, text.brief,
                     text.notes.empty() ? "" : fmt::format(" ({})", text.notes));
}

}  // namespace lockstep
