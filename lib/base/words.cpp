#include "base/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // the row two above
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string counted(std::int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const auto ends_in = [&](std::string_view ending) { return noun.ends_with(ending); };
  const bool after_vowel = ends_in("ay") || ends_in("ey") || ends_in("oy");
  if (ends_in("y") && !after_vowel) return fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1));
  const bool hisses = ends_in("s") || ends_in("x") || ends_in("ch") || ends_in("sh");
  return fmt::format("{} {}{}", count, noun, hisses ? "es" : "s");
}

std::string rank_ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::size_t> misspelling(std::string_view a, std::string_view b) {
  const std::size_t most = a.size() < 2 ? 0 : a.size() < 6 ? 1 : a.size() < 12 ? 2 : 3;
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most)
    return std::nullopt;  // as many edits at least
  const std::size_t distance = edit_distance(a, b);
  return distance <= most ? std::optional(distance) : std::nullopt;
}

}  // namespace lockstep
