#include "options/suggestion.hpp"

#include "base/text.hpp"
#include "base/words.hpp"
#include "options/synonyms.hpp"

#include <algorithm>

namespace lockstep {

namespace {

struct Name {
  std::string section;  // empty: none
  std::string key;
};

Name parts_of(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {.section = {}, .key = path};
  return {.section = path.substr(0, dot), .key = path.substr(dot + 1)};
}

/// How far the section that was written is from `section`; nothing: another one.
std::optional<std::size_t> section_distance(const std::string& written, const std::string& section) {
  if (written.empty() || written == section) return 0;
  if (section_meant_by(written) == section) return 1;
  return misspelling(written, section);
}

}  // namespace

std::optional<std::string> suggested_option(const Declaration& declaration, const std::string& name) {
  const Name written = parts_of(name);
  constexpr std::size_t another_section = 100;
  std::optional<std::string> best;
  std::size_t least = 0;
  const auto consider = [&](const Option& option, std::size_t distance) {
    if (best && distance >= least) return;
    best = option.path;
    least = distance;
  };
  for (const Option& option : declaration.options()) {
    const Name known = parts_of(option.path);
    if (!option.facts.hidden && known.key == written.key)
      consider(option, section_distance(written.section, known.section).value_or(another_section));
  }
  if (best) return best;
  for (const std::string_view meant : options_meant_by(written.key)) {
    if (declaration.find(meant) != nullptr) return std::string(meant);
  }
  for (const Option& option : declaration.options()) {
    const Name known = parts_of(option.path);
    const auto section = section_distance(written.section, known.section);
    const auto key = misspelling(written.key, known.key);
    if (!option.facts.hidden && section && key) consider(option, *section + *key);
  }
  return best;
}

std::optional<std::string> suggested_section(const Declaration& declaration, const std::string& name) {
  std::vector<std::string> names;
  for (const Declaration::Section& section : declaration.sections()) names.push_back(section.name);
  const std::string meant(section_meant_by(name));
  return std::ranges::find(names, meant) != names.end() ? std::optional(meant) : nearest(name, names);
}

std::optional<std::string> suggested_choice(const std::vector<std::string>& choices, const std::string& text) {
  for (const std::string_view meant : choices_meant_by(text)) {
    if (std::ranges::find(choices, meant) != choices.end()) return std::string(meant);
  }
  return nearest(lower_ascii(text), choices);
}

}  // namespace lockstep
