// Words in messages: counts in singular and plural, ranges of ranks, misspellings. Other functions for text:
// base/text.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Returns "1 rank", "4 ranks", "2 batches", "3 entries".
std::string counted(std::int64_t count, std::string_view noun);

/// Returns "0-2,5" for {0, 1, 2, 5}.
std::string rank_ranges(const std::vector<int>& ranks);

/// Returns the number of characters to replace, insert, remove or swap with a neighbour to turn `a` into `b`; nothing
/// if there are more than a misspelling may have: 0 if `a` has fewer than 2 characters, 1 below 6 characters, 2 below
/// 12, else 3.
std::optional<std::size_t> misspelling(std::string_view a, std::string_view b);

}  // namespace lockstep
