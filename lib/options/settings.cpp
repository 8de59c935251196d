#include "options/settings.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep {

namespace {

constexpr std::size_t comment_column = 44;

/// Text that every YAML reader takes as text without quotes: names and paths, not the words and numbers that mean
/// something else.
bool is_plain(const std::string& text) {
  static constexpr std::array<std::string_view, 12> words{"true", "false", "yes", "no",  "on",  "off",
                                                          "null", "y",     "n",   "nan", "inf", "infinity"};
  if (text.empty()) return false;
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const bool starts_well =
      letter(text.front()) ||
      (text.size() > 1 && (text.front() == '/' || text.starts_with("./") || text.starts_with("../")));
  const auto mark_of_names = [](char c) {
    return std::string_view("_-./0123456789").find(c) != std::string_view::npos;
  };
  const bool of_names = std::ranges::all_of(text, [&](char c) { return letter(c) || mark_of_names(c); });
  return starts_well && of_names && std::ranges::find(words, lower_ascii(text)) == words.end();
}

/// The shortest digits that read back as the same double, with the point that YAML 1.1 wants in a number.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  const std::size_t exponent = text.find('e');
  if (text.find('.') == std::string::npos) text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  return text;
}

}  // namespace

std::string to_yaml(const Json& value) {
  if (value.is_number_float()) return number_text(value.get<double>());
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) return value.get<std::string>();
  if (value.is_array() || value.is_object()) {
    std::string items;
    for (const auto& [key, item] : value.items()) {
      if (!items.empty()) items += ", ";
      if (value.is_object()) items += key + ": ";
      items += item.is_string() ? to_text(item) : to_yaml(item);  // in quotes: a plain text may hold no comma here
    }
    return value.is_array() ? "[" + items + "]" : "{" + items + "}";
  }
  return to_text(value);
}

std::string origin_of(const Settings& settings, const std::string& path) {
  const auto setting = std::ranges::find_if(settings, [&](const Setting& candidate) { return candidate.path == path; });
  return setting == settings.end() ? "" : setting->origin;
}

std::string to_yaml(const Settings& settings, const Tool& tool, PrintExtent extent) {
  std::string text =
      fmt::format("# {}: {} with their values and where they came from\ndialect: lockstep\n", tool.name,
                  extent == PrintExtent::full ? "all options" : "the options that differ from their defaults");
  std::string section;
  for (const Setting& setting : settings) {
    const bool built_in = setting.origin == "built-in";
    if (built_in && (extent == PrintExtent::changed || setting.shown == Setting::Shown::if_changed)) continue;
    const std::size_t dot = setting.path.find('.');
    const std::string of = dot == std::string::npos ? "" : setting.path.substr(0, dot);
    if (of != section) {
      section = of;
      if (!of.empty()) text += of + ":\n";
    }
    const std::string key = of.empty() ? setting.path : "  " + setting.path.substr(dot + 1);
    const std::string line = fmt::format("{}: {}", key, to_yaml(*setting.value));
    text += fmt::format("{:<{}}  # {}\n", line, comment_column, setting.origin);
  }
  return text;
}

Json to_json(const Settings& settings) {
  Json result = Json::object();
  for (const Setting& setting : settings) {
    const std::size_t dot = setting.path.find('.');
    (dot == std::string::npos ? result[setting.path]
                              : result[setting.path.substr(0, dot)][setting.path.substr(dot + 1)]) = *setting.value;
  }
  return result;
}

}  // namespace lockstep
