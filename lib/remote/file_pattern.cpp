#include "remote/file_pattern.hpp"

#include "base/text.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// Whether a pattern of pieces matches, where stars take any number of pieces: the last star alone is tried anew, so
/// that time grows as the product of both lengths at most. `one(p, t)`: the piece behind p, and that behind t, if what
/// stands there matches. `partly`: the text may go on.
template <class IsStar, class One>
bool matches_pieces(std::size_t pattern_end, std::size_t text_end, bool partly, IsStar is_star, One one) {
  std::size_t p = 0, t = 0;
  std::optional<std::pair<std::size_t, std::size_t>> star;  // behind the last one, and where its rest was tried
  while (true) {
    if (p < pattern_end && is_star(p)) {
      star = {++p, t};
      continue;
    }
    if (p == pattern_end && (partly || t == text_end)) return true;
    if (p < pattern_end && t < text_end) {
      if (const auto next = one(p, t)) {
        std::tie(p, t) = *next;
        continue;
      }
    }
    if (!star || star->second == text_end) return false;
    p = star->first;
    t = ++star->second;
  }
}

// Behind [...] at p, if it is closed, and whether it takes the byte.
std::optional<std::pair<std::size_t, bool>> in_brackets(std::string_view pattern, std::size_t p, char byte) {
  const auto value = [](char c) { return static_cast<unsigned char>(c); };
  std::size_t at = p + 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool taken = false;
  for (const std::size_t first = at; at < pattern.size() && (pattern[at] != ']' || at == first);) {
    const char low = pattern[at];
    const bool range = at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']';
    const char high = range ? pattern[at + 2] : low;
    taken = taken || (value(low) <= value(byte) && value(byte) <= value(high));
    at += range ? 3 : 1;
  }
  if (at >= pattern.size()) return std::nullopt;
  return std::pair(at + 1, taken != negated);
}

// A name between slashes; a leading dot has to be there itself.
bool matches_name(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  using Next = std::optional<std::pair<std::size_t, std::size_t>>;
  return matches_pieces(
      pattern.size(), name.size(), false, [&](std::size_t p) { return pattern[p] == '*'; },
      [&](std::size_t p, std::size_t t) -> Next {
        if (pattern[p] == '[') {
          if (const auto found = in_brackets(pattern, p, name[t]))
            return found->second ? Next({found->first, t + 1}) : std::nullopt;
        }
        if (pattern[p] == '?') {
          std::size_t behind = t + 1;  // of a character in UTF-8
          while (behind < name.size() && (static_cast<unsigned char>(name[behind]) & 0xC0) == 0x80) ++behind;
          return Next({p + 1, behind});
        }
        return pattern[p] == name[t] ? Next({p + 1, t + 1}) : std::nullopt;
      });
}

}  // namespace

bool matches_files(std::string_view pattern, std::string_view path) {
  if (pattern.starts_with("./")) pattern.remove_prefix(2);
  const std::vector<std::string> names = split(std::string(pattern), '/'), parts = split(std::string(path), '/');
  using Next = std::optional<std::pair<std::size_t, std::size_t>>;
  return matches_pieces(
      names.size(), parts.size(), true, [&](std::size_t p) { return names[p] == "**"; },
      [&](std::size_t p, std::size_t t) {
        return matches_name(names[p], parts[t]) ? Next({p + 1, t + 1}) : std::nullopt;
      });
}

}  // namespace lockstep
