#include "options/interpret.hpp"

#include "base/text.hpp"
#include "base/words.hpp"
#include "options/arguments.hpp"
#include "options/former_options.hpp"
#include "options/path_text.hpp"
#include "options/suggestion.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace lockstep {

namespace {

using Kind = OptionType::Kind;

std::string without_digit_separators(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t k) {
      return k < text.size() && std::isdigit(static_cast<unsigned char>(text[k])) != 0;
    };
    const bool separator = text[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1);
    if (!separator) result += text[i];
  }
  return result.starts_with('+') && result.size() > 1 && result[1] != '-' ? result.substr(1) : result;
}

std::optional<double> number_of(const std::string& text) {
  const std::string digits = without_digit_separators(text);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer_of(const std::string& text) {
  const std::string digits = without_digit_separators(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc{} && end == digits.data() + digits.size()) return value;
  constexpr double exact = 9007199254740992.0;  // beyond 2^53 a double is no exact count
  const std::optional<double> number = number_of(text);
  if (!number || *number != std::floor(*number) || std::abs(*number) > exact) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

std::optional<bool> truth_of(const std::string& text, std::initializer_list<std::string_view> yes,
                             std::initializer_list<std::string_view> no) {
  const std::string word = lower_ascii(text);
  if (std::ranges::find(yes, word) != yes.end()) return true;
  if (std::ranges::find(no, word) != no.end()) return false;
  return std::nullopt;
}

bool is_word_for_none(const std::string& text) {
  return text == "none" || text == "None" || text == "nil" || text == "never";
}

bool is_value_of(const OptionType& type, const std::string& text) {
  if (type.kind == Kind::choice) return std::ranges::find(type.choices, text) != type.choices.end();
  if (type.kind != Kind::form) return false;
  try {
    type.check(text);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// "[0.9, 0.95]" for "0.9,0.95", "0.9 0.95" and "(0.9, 0.95)": numbers or choices that only lack the brackets.
std::optional<std::string> as_list(const OptionType& element, const Node& node) {
  const bool of_words = element.kind == Kind::integer || element.kind == Kind::number || element.kind == Kind::choice;
  if (node.kind != Node::Kind::scalar || !of_words) return std::nullopt;
  std::string text = node.text;
  std::ranges::replace_if(text, [](char c) { return c == ',' || c == '(' || c == ')'; }, ' ');
  std::vector<std::string> parts = split(text, ' ');
  std::erase(parts, "");
  if (parts.size() < 2) return std::nullopt;
  return fmt::format("[{}]", join(parts, ", "));
}

std::string expected(const OptionType& type) {
  switch (type.kind) {
    case Kind::boolean: return "true or false";
    case Kind::integer: return "a whole number";
    case Kind::number: return "a number";
    case Kind::text: return "text";
    case Kind::choice: return fmt::format("one of {}", join(type.choices, ", "));
    case Kind::form: return type.form;
    case Kind::list: return "a list";
    case Kind::group: return "a map of keys";
    case Kind::map: return "a map by name";
  }
  throw Error(ExitCode::bug, "unknown OptionType::Kind");
}

/// Those alternatives of a form that are typed as they stand: "none" and "block" of "none|block|every:K".
std::vector<std::string> words_of(const std::string& form) {
  std::vector<std::string> words = split(form, '|');
  std::erase_if(words, [](const std::string& word) {
    return !std::ranges::all_of(word, [](char c) { return c >= 'a' && c <= 'z'; });
  });
  return words;
}

std::string shape_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::scalar: return fmt::format("\"{}\"", node.text);
    case Node::Kind::list: return "a list";
    case Node::Kind::map: return "a map of keys";
  }
  throw Error(ExitCode::bug, "unknown Node::Kind");
}

/// What can be said behind a dot of an option.
bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
}

/// Interprets one option's node; collects problems under the option's name.
class Interpreter {
 public:
  Interpreter(const OptionFacts& facts, std::string path, Problems& problems)
      : facts_(facts), path_(std::move(path)), problems_(problems) {}

  std::optional<Json> value(const OptionType& type, const Node& node) {
    switch (type.kind) {
      case Kind::list: return list(type, node);
      case Kind::group: return group(type, node);
      case Kind::map: return map(type, node);
      case Kind::boolean:
      case Kind::integer:
      case Kind::number:
      case Kind::text:
      case Kind::choice:
      case Kind::form: break;
    }
    if (node.kind != Node::Kind::scalar)
      return refuse(node, fmt::format("{} is given where {} is expected", shape_of(node), expected(type)));
    const bool is_text = type.kind == Kind::text || type.kind == Kind::choice || type.kind == Kind::form;
    if (node.quoted && !is_text) {
      return refuse(node, fmt::format("\"{}\" is in quotes, so it is text; {} is expected", node.text, expected(type)));
    }
    return scalar(type, node);
  }

 private:
  std::nullopt_t refuse(const Node& node, const std::string& text) {
    problems_.add_at(node.origin, path_, text);
    return std::nullopt;
  }

  std::optional<Json> scalar(const OptionType& type, const Node& node) {
    const auto no_value = [&] { return refuse(node, fmt::format("\"{}\" is not {}", node.text, expected(type))); };
    if (type.optional && is_word_for_none(node.text) && !is_value_of(type, node.text)) {
      return refuse(node, fmt::format("\"{}\" is not {}: did you mean null?", node.text, expected(type)));
    }
    if (type.kind == Kind::boolean) {
      const std::optional<bool> truth = boolean_word(node.text);
      if (!truth) return no_value();
      return Json(*truth);
    }
    if (type.kind == Kind::integer) {
      const std::optional<std::int64_t> integer = integer_of(node.text);
      if (!integer) return no_value();
      return in_range(node, static_cast<double>(*integer)) ? std::optional<Json>(*integer) : std::nullopt;
    }
    if (type.kind == Kind::number) {
      const std::optional<double> number = number_of(node.text);
      if (!number) return no_value();
      return in_range(node, *number) ? std::optional<Json>(*number) : std::nullopt;
    }
    return text(type, node);
  }

  std::optional<Json> text(const OptionType& type, const Node& node) {
    if (!is_path(facts_, node.text)) return plain_text(type, node);
    try {
      Node expanded = node;
      expanded.text = expand_path(node.text);
      return plain_text(type, expanded);
    } catch (const Error& error) {
      return refuse(node, error.what());
    }
  }

  std::optional<Json> plain_text(const OptionType& type, const Node& node) {
    if (type.kind == Kind::choice && std::ranges::find(type.choices, node.text) == type.choices.end()) {
      const std::optional<std::string> meant = suggested_choice(type.choices, node.text);
      return refuse(node, fmt::format("\"{}\" is not {}{}", node.text, expected(type),
                                      meant ? fmt::format(": did you mean \"{}\"?", *meant) : ""));
    }
    if (type.kind == Kind::form) {
      try {
        type.check(node.text);
      } catch (const Error& error) {
        const std::optional<std::string> meant = suggested_choice(words_of(type.form), node.text);
        return refuse(node, error.what() + (meant ? fmt::format(": did you mean \"{}\"?", *meant) : ""));
      }
    }
    return Json(node.text);
  }

  bool in_range(const Node& node, double value) {
    const bool low = facts_.min && (value < *facts_.min || (facts_.above_min && value == *facts_.min));
    const bool high = facts_.max && value > *facts_.max;
    if (!low && !high) return true;
    problems_.add_at(node.origin, path_,
                     fmt::format("{} is out of range: it must be {}", node.text, range_text(facts_)));
    return false;
  }

  std::optional<Json> list(const OptionType& type, const Node& node) {
    if (const auto meant = as_list(type.element.front(), node))
      return refuse(node, fmt::format("\"{}\" is not a list: did you mean \"{}\"?", node.text, *meant));
    Json result = Json::array();
    bool complete = true;
    const std::vector<Node>& items =
        node.kind == Node::Kind::list ? node.items : std::vector{node};  // one value is a list of one
    for (std::size_t i = 0; i < items.size(); ++i) {
      Interpreter item(facts_, fmt::format("{}.{}", path_, i), problems_);
      std::optional<Json> json = item.value(type.element.front(), items[i]);
      if (json) result.push_back(std::move(*json));
      complete = complete && json;
    }
    if (type.length && items.size() != *type.length) {
      return refuse(node, fmt::format("{} {} given, {} are expected", counted(std::ssize(items), "value"),
                                      items.size() == 1 ? "is" : "are", *type.length));
    }
    return complete ? std::optional(std::move(result)) : std::nullopt;
  }

  std::optional<Json> map(const OptionType& type, const Node& node) {
    if (node.kind == Node::Kind::list) return map(type, named_by_position(node));
    if (node.kind != Node::Kind::map)
      return refuse(node, fmt::format("{} is given where {} is expected", shape_of(node), expected(type)));
    Json result = Json::object();
    bool complete = true;
    for (const auto& [name, value] : node.entries) {
      if (value.kind == Node::Kind::null) continue;  // takes out what was below
      if (!is_name(name)) {
        complete = false;
        problems_.add_at(value.origin, path_,
                         fmt::format("\"{}\" is not a valid name: use only letters, digits, _ and -", name));
        continue;
      }
      Interpreter element(facts_, fmt::format("{}.{}", path_, name), problems_);
      std::optional<Json> json = element.value(type.element.front(), value);
      if (json) result[name] = std::move(*json);
      complete = complete && json;
    }
    return complete ? std::optional(std::move(result)) : std::nullopt;
  }

  std::optional<Json> group(const OptionType& type, const Node& node) {
    if (node.kind != Node::Kind::map)
      return refuse(node, fmt::format("{} is given where {} is expected", shape_of(node), expected(type)));
    Json result = Json::object();
    bool complete = true;
    for (const auto& [key, value] : node.entries) {
      const auto field = std::ranges::find_if(
          *type.fields, [&, name = key](const Option& candidate) { return candidate.path == name; });
      if (field == type.fields->end()) {
        complete = false;
        unknown_field(type, key, value);
        continue;
      }
      if (value.kind == Node::Kind::null) continue;
      Interpreter inner(field->facts, fmt::format("{}.{}", path_, key), problems_);
      std::optional<Json> json = inner.value(field->type, value);
      if (json) result[key] = std::move(*json);
      complete = complete && json;
    }
    for (const Option& field : *type.fields) {
      const Node* const given = node.find(field.path);
      if (field.facts.required && (given == nullptr || given->kind == Node::Kind::null)) {
        complete = false;
        problems_.add_at(node.origin, path_, fmt::format("the key \"{}\" is missing", field.path));
      }
    }
    return complete ? std::optional(std::move(result)) : std::nullopt;
  }

  void unknown_field(const OptionType& type, const std::string& key, const Node& value) {
    std::vector<std::string> names;
    for (const Option& field : *type.fields) names.push_back(field.path);
    const std::optional<std::string> meant = nearest(key, names);
    problems_.add_at(value.origin, path_,
                     fmt::format("unknown key \"{}\"{}", key,
                                 meant ? fmt::format(": did you mean \"{}\"?", *meant)
                                       : fmt::format("; its keys are {}", join(names, ", "))));
  }

  const OptionFacts& facts_;
  std::string path_;
  Problems& problems_;
};

void refuse_as_section(const std::string& name, const Node& node, Problems& problems) {
  problems.add_at(node.origin, "",
                  fmt::format("\"{}\" is a section: {} is given where its keys are expected", name, shape_of(node)));
}

/// What is said of a key that no option of the program has.
class OtherKeys {
 public:
  OtherKeys(const Declaration& own, const Declaration* all, Problems& problems)
      : own_(own), known_(all == nullptr ? own : *all), problems_(problems) {}

  /// Passes over what another program reads.
  void take(const std::string& path, const Node& node) {
    const bool section = node.kind == Node::Kind::map && path.find('.') == std::string::npos;
    if (section && is_section(path)) {
      for (const auto& [inner, value] : node.entries) take(path + "." + inner, value);
    } else if (!is_misplaced(path) && known_.find(path) != nullptr) {
      check(path, node);
    } else if (!is_section(path)) {
      refuse(path, node, section);
    } else if (node.kind != Node::Kind::null) {
      refuse_as_section(path, node, problems_);
    }
  }

 private:
  bool is_section(const std::string& name) const {
    return std::ranges::any_of(known_.sections(), [&](const auto& section) { return section.name == name; });
  }

  /// A key outside of sections that this program has in one of its own.
  bool is_misplaced(const std::string& path) const {
    if (path.find('.') != std::string::npos) return false;
    return std::ranges::any_of(own_.options(), [&](const Option& option) { return option.path.ends_with("." + path); });
  }

  /// A value that none of the programs that have the option takes is a problem here, too.
  void check(const std::string& path, const Node& node) {
    if (node.kind == Node::Kind::null) return;
    std::optional<Problems> first;
    for (const Option& option : known_.options()) {
      if (option.path != path || option.facts.command_line_only) continue;
      Problems found;
      if (interpret(option.type, option.facts, node, path, found)) return;
      if (!first) first = found;
    }
    if (!first) return problems_.add_at(node.origin, path, "this option belongs on the command line, not in a file");
    for (const Problems::Entry& entry : first->entries()) problems_.add_at(entry.where, path, entry.text);
  }

  void refuse(const std::string& path, const Node& node, bool section) {
    const std::optional<std::string> meant = section ? suggested_section(known_, path) : suggested(path);
    problems_.add_at(
        node.origin, "",
        fmt::format("unknown key \"{}\"{}", path, meant ? fmt::format(": did you mean \"{}\"?", *meant) : ""));
    if (!meant) return;
    // What the key was meant to set is not missing.
    for (const Option& option : own_.options()) {
      if (option.path == *meant || (section && option.path.starts_with(*meant + ".")))
        problems_.concerns_too(option.path);
    }
  }

  std::optional<std::string> suggested(const std::string& path) const {
    const std::optional<std::string> own = suggested_option(own_, path);
    const bool same_section = own && own->substr(0, own->find('.')) == path.substr(0, path.find('.'));
    return same_section || is_misplaced(path) ? own : suggested_option(known_, path);
  }

  const Declaration& own_;
  const Declaration& known_;
  Problems& problems_;
};

/// Calls visit(dotted name, node) for each key of the document that may be an option.
template <class Visit>
void for_each_key(const Declaration& declaration, const Node& document, Problems& problems, const Visit& visit) {
  for (const auto& [key, node] : document.entries) {
    const auto is_it = [&, name = key](const Declaration::Section& section) { return section.name == name; };
    if (std::ranges::none_of(declaration.sections(), is_it)) {
      if (const std::size_t dot = key.find('.'); dot != std::string::npos && declaration.find(key) != nullptr) {
        problems.add_at(node.origin, "",
                        fmt::format("in a file, \"{}\" is written as \"{}\" below \"{}:\"", key, key.substr(dot + 1),
                                    key.substr(0, dot)));
      } else {
        visit(key, node);
      }
    } else if (node.kind == Node::Kind::map) {
      for (const auto& [inner, value] : node.entries) visit(key + "." + inner, value);
    } else if (node.kind != Node::Kind::null) {
      refuse_as_section(key, node, problems);
    }
  }
}

const Node* node_of(const Node& document, const std::string& path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) return document.find(path);
  const Node* const section = document.find(path.substr(0, dot));
  return section == nullptr ? nullptr : section->find(path.substr(dot + 1));
}

bool is_set(const Node* node) { return node != nullptr && node->kind != Node::Kind::null; }

}  // namespace

namespace {

/// What a configuration file would say to get this value: its paths with their dollar signs doubled.
Json as_written(const OptionType& type, const OptionFacts& facts, Json value) {
  if (value.is_null()) return value;
  switch (type.kind) {
    case Kind::text:
    case Kind::form:
      if (value.is_string() && is_path(facts, value.get_ref<const std::string&>()))
        return escape_path(value.get_ref<const std::string&>());
      return value;
    case Kind::list:
    case Kind::map:
      for (Json& element : value) element = as_written(type.element.front(), facts, std::move(element));
      return value;
    case Kind::group:
      for (const Option& field : *type.fields)
        if (const auto held = value.find(field.path); held != value.end())
          *held = as_written(field.type, field.facts, std::move(*held));
      return value;
    case Kind::boolean:
    case Kind::integer:
    case Kind::number:
    case Kind::choice: return value;
  }
  throw Error(ExitCode::bug, "unknown OptionType::Kind");
}

}  // namespace

Settings apply(Declaration& declaration, const Node& document, Problems& problems, const Declaration* all_programs) {
  OtherKeys others(declaration, all_programs, problems);
  for_each_key(declaration, document, problems, [&](const std::string& path, const Node& node) {
    const Option* const option = declaration.find(path);
    if (const FormerOption* const former = find_former(declaration, path)) {
      if (node.kind != Node::Kind::null)
        problems.add_at(node.origin, path, fmt::format("this option was removed: use {}", former->says));
    } else if (option == nullptr) {
      others.take(path, node);
    } else if (option->facts.command_line_only && node.origin != "command line") {
      problems.add_at(node.origin, path, "this option belongs on the command line, not in a file");
    } else if (node.kind == Node::Kind::null) {
      if (option->type.optional) option->set(nullptr);
    } else if (const std::optional<Json> value = interpret(option->type, option->facts, node, path, problems)) {
      option->set(*value);
    }
  });
  Settings settings;
  for (const Option& option : declaration.options()) {
    if (option.facts.command_line_only) continue;
    const Node* const node = node_of(document, option.path);
    const bool from_outside = is_set(node) || (node != nullptr && option.type.optional);
    const bool missing = option.facts.required && !from_outside;
    settings.push_back({.path = option.path,
                        .value = std::make_shared<const Json>(
                            missing ? Json(nullptr) : as_written(option.type, option.facts, option.get())),
                        .origin = from_outside ? node->origin : "built-in",
                        .shown = option.facts.hidden ? Setting::Shown::if_changed : Setting::Shown::always});
  }
  return settings;
}

void require(const Declaration& declaration, const Node& document, Problems& problems) {
  for (const Option& option : declaration.options()) {
    if (!option.facts.required || is_set(node_of(document, option.path))) continue;
    const auto is_given = [&](const std::string& name) {
      const Option* const other = declaration.find(name);
      return other != nullptr && other->get() != other->built_in;
    };
    if (std::ranges::any_of(option.facts.needless_with, is_given)) continue;
    const std::string name = option.facts.positional ? option.facts.value_name : name_in_messages(option.path);
    problems.add({option.path}, fmt::format("{} is needed: {}", name, option.facts.brief));
  }
}

std::optional<Json> interpret(const OptionType& type, const OptionFacts& facts, const Node& node,
                              const std::string& path, Problems& problems) {
  return Interpreter(facts, path, problems).value(type, node);
}

std::string range_text(const OptionFacts& facts) {
  const std::string low =
      facts.min ? fmt::format("{} {}", facts.above_min ? "greater than" : "at least", *facts.min) : "";
  if (facts.min && facts.max && !facts.above_min) return fmt::format("from {} to {}", *facts.min, *facts.max);
  if (facts.min && facts.max) return fmt::format("{} and at most {}", low, *facts.max);
  if (facts.max) return fmt::format("at most {}", *facts.max);
  return low;
}

std::optional<bool> boolean_word(const std::string& text) {
  return truth_of(text, {"true", "yes", "on"}, {"false", "no", "off"});
}

std::optional<bool> flag_word(const std::string& text) {
  return truth_of(text, {"true", "yes", "t", "y", "1", "on"}, {"false", "no", "f", "n", "0", "off"});
}

}  // namespace lockstep
