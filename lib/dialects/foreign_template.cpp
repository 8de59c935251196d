#include "dialects/foreign_template.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 8> statements{"extends", "block", "endblock", "include",
                                                     "import",  "from",  "set",      "macro"};
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view first_word(std::string_view text) {
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_word) - text.begin()));
}

/// "-- extends 'base.yaml'": a statement of Jinja that is a line.
std::optional<std::string> statement_in(std::string_view line) {
  if (!line.starts_with("-- ")) return std::nullopt;
  const std::string_view word = first_word(trim(line.substr(3)));
  if (std::ranges::find(statements, word) == statements.end()) return std::nullopt;
  return "-- " + std::string(word);
}

/// "[config]" at the beginning of a line and alone on it: YAML has lists there only behind a key.
std::optional<std::string> block_in(std::string_view line) {
  if (!line.starts_with('[') || !line.ends_with(']')) return std::nullopt;
  const std::string_view name = line.substr(1, line.size() - 2);
  if (name.empty() || first_word(name) != name) return std::nullopt;
  return std::string(line);
}

}  // namespace

std::optional<ForeignTemplate> find_foreign_template(std::string_view text) {
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end), line = trim(whole);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (line.starts_with("{%") || line.starts_with("{{"))
      return ForeignTemplate{number, std::string(line.substr(0, 2))};
    if (auto seen = statement_in(line)) return ForeignTemplate{number, std::move(*seen)};
    if (auto seen = whole.starts_with('[') ? block_in(line) : std::nullopt)
      return ForeignTemplate{number, std::move(*seen)};
  }
  return std::nullopt;
}

}  // namespace lockstep
