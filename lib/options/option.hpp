// Declaration of options. A struct declares its options in describe(visit, itself), one line per option. The parser,
// help, manual, completion, schema and provenance all come from this declaration. Value types with a text form of their
// own: options/quantities.hpp. Reading files: options/document.hpp.
#pragma once

#include "base/error.hpp"
#include "base/json.hpp"
#include "options/defaulted.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

constexpr std::size_t most_brief = 72;  // characters

/// Names that the command line completes after an option.
enum class Completes { nothing, files, folders };

/// Whether a resumed run may change an option, and how its value is compared with the saved run's.
struct OnResume {
  enum class Compared { no, as_written, as_resolved };
  Compared compared = Compared::no;
  std::string_view as = {};     // as_resolved: the option that stands for this one in a difference; empty: itself
  std::string_view when = {};   // the only case in which it is compared, for help: "in the cooldown of infinite"
  std::string_view never = {};  // why checkpoint.allow_change cannot permit a change; empty: it can

  static constexpr OnResume fixed(std::string_view never = {}) { return {Compared::as_written, {}, {}, never}; }
  static constexpr OnResume resolved(std::string_view as = {}, std::string_view never = {}) {
    return {Compared::as_resolved, as, {}, never};
  }
  /// For options that say where something lies, and whose content is compared instead.
  static constexpr OnResume by_content(std::string_view never) { return {Compared::no, {}, {}, never}; }
  bool is_fixed() const { return compared != Compared::no; }
};

/// Returns the rule in words, for help and the manual: "fixed on resume, as schedule.warmup_steps". Empty if a resumed
/// run may change the option.
std::string text_of(const OnResume& rule);

/// Facts about an option besides its name, type and default.
struct OptionFacts {
  std::string brief;               // at most most_brief characters, with the field's term; lower-case, no full stop
  std::string details = {};        // sentences for help and the manual; no full stop at the end
  std::string unset = {};          // the default in words, if it is computed: "train.seed"
  std::string unit = {};           // "steps", "1/step"
  std::optional<double> min = {};  // of a number, or of each number in a list
  std::optional<double> max = {};
  bool above_min = false;       // min itself is excluded
  std::string value_name = {};  // in help: "FILE"; empty: derived from the type
  std::string bare = {};        // value of the flag without a value (--verify = --verify=sizes); values then need "="
  char letter = '\0';           // short spelling: -o
  bool required = false;        // a file or the command line must set it
  std::vector<std::string> needless_with = {};  // switches with which a required option is not needed
  bool hidden = false;                          // not in help, manual or completion
  OnResume on_resume = {};
  bool positional = false;         // takes arguments without a name; only outside sections
  bool command_line_only = false;  // not allowed in files, not shown in them
  bool literal = false;            // of a list: a word is a text even if it begins as a list of YAML does
  // Written as in another trainer: names with _, lists as several words, flags as t or 1.
  bool of_dialect = false;
  Completes completes = Completes::nothing;
  // Of a path: true for a text that is the content itself, in place of its file. Not set: every text is a path.
  bool (*is_content)(std::string_view text) = nullptr;
};

/// Whether a value of the option is a path, which is expanded (options/path_text.hpp).
inline bool is_path(const OptionFacts& facts, std::string_view text) {
  return facts.completes != Completes::nothing && (facts.is_content == nullptr || !facts.is_content(text));
}

struct Option;

/// The values that an option takes.
struct OptionType {
  enum class Kind { boolean, integer, number, text, choice, form, list, group, map };
  Kind kind = Kind::text;
  bool optional = false;                                   // null is a value: not set
  std::vector<std::string> choices = {};                   // of choice
  std::vector<std::string> phrases = {};                   // of choice: what each of `choices` does
  std::string form = {};                                   // of form: describes the text
  std::function<void(const std::string&)> check = {};      // of form: throws Error(usage) with the reason
  std::vector<OptionType> element = {};                    // of list, and of map: one type
  std::optional<std::size_t> length = {};                  // of list: exact number of elements
  std::shared_ptr<const std::vector<Option>> fields = {};  // of group: fields of one element, unbound
};

struct Option {
  std::string path;  // dotted; for a field of a group only its name
  OptionType type;
  OptionFacts facts;
  Json built_in;
  std::function<Json()> get;
  std::function<void(const Json&)> set;  // takes the result of interpret(): cannot fail
  Json value_if_unset = nullptr;         // of a Defaulted
};

class Declaration {
 public:
  struct Section {
    std::string name;
    std::string help;
  };

  /// Declares an option that is bound to `value`. The present content is the default. `value` outlives the declaration.
  template <class T>
  void field(const std::string& name, T& value, const OptionFacts& facts);

  /// Declares a section. Names that `body` declares get the prefix "name.".
  template <class Body>
  void section(const std::string& name, const std::string& help, Body&& body) {
    sections_.push_back({name, help});
    prefix_ = name + ".";
    std::forward<Body>(body)();
    prefix_.clear();
  }

  /// Adds an option that is not bound to a variable.
  void add(Option option) { options_.push_back(std::move(option)); }

  /// Adds all options and sections of another declaration.
  void add_all(const Declaration& other) {
    options_.insert(options_.end(), other.options_.begin(), other.options_.end());
    sections_.insert(sections_.end(), other.sections_.begin(), other.sections_.end());
  }

  const std::vector<Option>& options() const { return options_; }
  const std::vector<Section>& sections() const { return sections_; }
  const Option* find(std::string_view path) const;

 private:
  std::string prefix_;
  std::vector<Option> options_;
  std::vector<Section> sections_;
};

/// Makes a C++ type usable as an option: its OptionType, and conversion to and from JSON.
template <class T>
struct OptionValue;

/// One value of an enum option: its name in files, and what it does, in a phrase for help.
template <class E>
struct Choice {
  E value;
  std::string_view name;
  std::string_view phrase = {};
};
/// An enum is usable as an option if choices_of(E) lists its values.
template <class E>
using ChoiceList = std::vector<Choice<E>>;

template <class E>
concept ChoiceOption = std::is_enum_v<E> && requires(E value) {
  { choices_of(value) } -> std::convertible_to<ChoiceList<E>>;
};

/// Returns the name of an enum option's value.
template <ChoiceOption E>
std::string_view choice_name(E value) {
  for (const Choice<E>& choice : choices_of(value))
    if (choice.value == value) return choice.name;
  throw Error(ExitCode::bug, "an enumerator is missing from its list of choices");
}

/// Throws Error(usage): the text of a value is not of its type's form.
[[noreturn]] void refuse_form(const std::string& text, const std::string& form);

template <class T>
concept FormOption = requires(const T& value, const std::string& text) {
  { T::form() } -> std::convertible_to<std::string>;
  { T::parse(text) } -> std::convertible_to<T>;
  { value.text() } -> std::convertible_to<std::string>;
};

template <class T>
concept GroupOption =
    std::is_class_v<T> && !FormOption<T> && requires(Declaration& visit, T& value) { describe(visit, value); };

/// A type that JSON holds directly.
template <class T, OptionType::Kind kind>
struct PlainOptionValue {
  static OptionType type() { return {.kind = kind}; }
  static Json to_json(const T& value) { return value; }
  static T from_json(const Json& json) { return json.get<T>(); }
};
template <>
struct OptionValue<bool> : PlainOptionValue<bool, OptionType::Kind::boolean> {};
template <>
struct OptionValue<std::int64_t> : PlainOptionValue<std::int64_t, OptionType::Kind::integer> {};
template <>
struct OptionValue<double> : PlainOptionValue<double, OptionType::Kind::number> {};
template <>
struct OptionValue<std::string> : PlainOptionValue<std::string, OptionType::Kind::text> {};

template <ChoiceOption E>
struct OptionValue<E> {
  static OptionType type() {
    OptionType result{.kind = OptionType::Kind::choice};
    for (const Choice<E>& choice : choices_of(E{})) {
      result.choices.emplace_back(choice.name);
      result.phrases.emplace_back(choice.phrase);
    }
    return result;
  }
  static Json to_json(E value) { return std::string(choice_name(value)); }
  static E from_json(const Json& json) {
    for (const Choice<E>& choice : choices_of(E{}))
      if (json.get_ref<const std::string&>() == choice.name) return choice.value;
    throw Error(ExitCode::bug, "a choice was not checked");
  }
};

template <FormOption T>
struct OptionValue<T> {
  static OptionType type() {
    return {.kind = OptionType::Kind::form, .form = T::form(), .check = [](const std::string& text) {
              (void)T::parse(text);
            }};
  }
  static Json to_json(const T& value) { return value.text(); }
  static T from_json(const Json& json) { return T::parse(json.get_ref<const std::string&>()); }
};

template <class T>
struct OptionValue<std::optional<T>> {
  static OptionType type() {
    OptionType result = OptionValue<T>::type();
    result.optional = true;
    return result;
  }
  static Json to_json(const std::optional<T>& value) { return value ? OptionValue<T>::to_json(*value) : Json(nullptr); }
  static std::optional<T> from_json(const Json& json) {
    if (json.is_null()) return std::nullopt;
    return OptionValue<T>::from_json(json);
  }
};

template <class T>
struct OptionValue<Defaulted<T>> {
  static OptionType type() { return OptionValue<std::optional<T>>::type(); }
  static Json to_json(const Defaulted<T>& value) { return OptionValue<std::optional<T>>::to_json(value.set()); }
  static std::optional<T> from_json(const Json& json) { return OptionValue<std::optional<T>>::from_json(json); }
};

template <class T>
struct OptionValue<std::vector<T>> {
  static OptionType type() { return {.kind = OptionType::Kind::list, .element = {OptionValue<T>::type()}}; }
  static Json to_json(const std::vector<T>& values) {
    Json result = Json::array();
    for (const T& value : values) result.push_back(OptionValue<T>::to_json(value));
    return result;
  }
  static std::vector<T> from_json(const Json& json) {
    std::vector<T> result;
    for (const Json& item : json) result.push_back(OptionValue<T>::from_json(item));
    return result;
  }
};

template <class T, std::size_t count>
struct OptionValue<std::array<T, count>> {
  static OptionType type() {
    return {.kind = OptionType::Kind::list, .element = {OptionValue<T>::type()}, .length = count};
  }
  static Json to_json(const std::array<T, count>& values) {
    return OptionValue<std::vector<T>>::to_json({values.begin(), values.end()});
  }
  static std::array<T, count> from_json(const Json& json) {
    std::array<T, count> result{};
    for (std::size_t i = 0; i < count; ++i) result[i] = OptionValue<T>::from_json(json.at(i));
    return result;
  }
};

/// Values by name, in order. Configurations write it as a map, or as a list with the names 0, 1, …
template <class T>
using Named = std::vector<std::pair<std::string, T>>;

template <class T>
struct OptionValue<Named<T>> {
  static OptionType type() { return {.kind = OptionType::Kind::map, .element = {OptionValue<T>::type()}}; }
  static Json to_json(const Named<T>& values) {
    Json result = Json::object();
    for (const auto& [name, value] : values) result[name] = OptionValue<T>::to_json(value);
    return result;
  }
  static Named<T> from_json(const Json& json) {
    Named<T> result;
    for (const auto& [name, value] : json.items()) result.emplace_back(name, OptionValue<T>::from_json(value));
    return result;
  }
};

/// A struct with describe(): an element of a list or map of groups. JSON leaves out fields that are not set.
template <GroupOption T>
struct OptionValue<T> {
  static OptionType type() {
    T prototype;
    Declaration declaration;
    describe(declaration, prototype);
    std::vector<Option> fields = declaration.options();
    for (Option& field : fields) {
      field.get = nullptr;  // bound to the prototype, which is destroyed here
      field.set = nullptr;
    }
    return {.kind = OptionType::Kind::group, .fields = std::make_shared<const std::vector<Option>>(std::move(fields))};
  }
  static Json to_json(T value) {
    Declaration declaration;
    describe(declaration, value);
    Json result = Json::object();
    for (const Option& field : declaration.options())
      if (Json held = field.get(); !held.is_null()) result[field.path] = std::move(held);
    return result;
  }
  static T from_json(const Json& json) {
    T value;
    Declaration declaration;
    describe(declaration, value);
    for (const Option& field : declaration.options()) {
      if (json.contains(field.path)) field.set(json.at(field.path));
    }
    return value;
  }
};

template <class T>
void Declaration::field(const std::string& name, T& value, const OptionFacts& facts) {
  options_.push_back({.path = prefix_ + name,
                      .type = OptionValue<T>::type(),
                      .facts = facts,
                      .built_in = OptionValue<T>::to_json(value),
                      .get = [&value] { return OptionValue<T>::to_json(value); },
                      .set = [&value](const Json& json) { value = OptionValue<T>::from_json(json); }});
  if constexpr (requires { value.default_value(); })
    options_.back().value_if_unset =
        OptionValue<std::decay_t<decltype(value.default_value())>>::to_json(value.default_value());
}

}  // namespace lockstep
