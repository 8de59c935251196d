#include "checkpoint/sides.hpp"

#include "base/text.hpp"
#include "base/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

std::string ranks_text(const std::vector<Rank>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", rank_ranges(ranks));
}

}  // namespace

Sides sides_of(std::span<const std::string> seen) {
  std::map<std::string, std::vector<Rank>> by_digest;
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank].empty()) by_digest[seen[rank]].push_back(static_cast<Rank>(rank));
  }
  Sides sides;
  for (auto& [digest, ranks] : by_digest) sides.push_back(std::move(ranks));
  std::ranges::sort(sides, {}, [](const std::vector<Rank>& side) { return side.front(); });
  const auto right = std::ranges::max_element(sides, {}, [](const std::vector<Rank>& side) { return side.size(); });
  if (right != sides.end()) std::rotate(sides.begin(), right, right + 1);
  return sides;
}

bool has_majority(const Sides& sides) {
  std::size_t all = 0;
  for (const std::vector<Rank>& side : sides) all += side.size();
  return all >= 3 && 2 * sides.front().size() > all;
}

Rank right_of(const Sides& sides) { return sides.front().front(); }
Rank wrong_of(const Sides& sides) { return sides.at(1).front(); }

std::string to_text(const Sides& sides) {
  constexpr std::size_t most_sides = 4;
  std::vector<std::string> wrong;
  for (std::size_t i = 1; i < sides.size() && i < most_sides; ++i) wrong.push_back(ranks_text(sides[i]));
  if (sides.size() > most_sides)
    wrong.push_back(fmt::format("{} more groups, all different,", sides.size() - most_sides));
  return fmt::format("{} against {}", join(wrong, " and "), ranks_text(sides.front()));
}

}  // namespace lockstep
