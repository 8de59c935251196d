#include "options/suggestion.hpp"

#include "base/text.hpp"
#include "base/words.hpp"
#include "options/synonyms.hpp"

#include <algorithm>
#include <set>
#include <string_view>

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

/// "model/layers.0" has the parts model, layers and 0.
std::vector<std::string> parts_of_name(std::string name) {
  std::ranges::replace(name, '/', '.');
  return split(name, '.');
}

bool are_in_order(const std::vector<std::string>& parts, const std::vector<std::string>& all) {
  auto part = parts.begin();
  for (const std::string& one : all)
    if (part != parts.end() && *part == one) ++part;
  return part == parts.end();
}

/// Neighbouring parts of the names: "self_attn.q_proj".
std::vector<std::string> runs_of_parts(const std::vector<std::string>& names) {
  std::set<std::string> runs;
  for (const std::string& name : names) {
    const std::vector<std::string> parts = parts_of_name(name);
    for (std::size_t first = 0; first < parts.size(); ++first) {
      std::string run = parts[first];
      runs.insert(run);
      for (std::size_t next = first + 1; next < parts.size(); ++next) runs.insert(run += "." + parts[next]);
    }
  }
  return {runs.begin(), runs.end()};
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

std::optional<std::string> suggested_tensor(const std::string& name, const std::vector<std::string>& names) {
  if (const auto near = nearest(name, names)) return near;
  const std::vector<std::string> parts = parts_of_name(name);
  const auto found =
      std::ranges::find_if(names, [&](const std::string& other) { return are_in_order(parts, parts_of_name(other)); });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

std::optional<std::string> suggested_pattern(const std::string& pattern, const std::vector<std::string>& names) {
  for (std::string text : split(pattern, '|')) {
    std::erase_if(text, [](char letter) { return std::string_view("^$()\\").find(letter) != std::string_view::npos; });
    if (text.empty() || text.find_first_of("[]*+?{}") != std::string::npos) continue;
    if (const auto tensor = suggested_tensor(text, names)) return tensor;
    if (const auto part = nearest(text, runs_of_parts(names))) return part;
  }
  return std::nullopt;
}

std::optional<std::string> suggested_choice(const std::vector<std::string>& choices, const std::string& text) {
  for (const std::string_view meant : choices_meant_by(text)) {
    if (std::ranges::find(choices, meant) != choices.end()) return std::string(meant);
  }
  return nearest(lower_ascii(text), choices);
}

}  // namespace lockstep
