// Words in messages: counts in singular and plural, ranges of ranks, misspellings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// "1 rank", "4 ranks", "2 batches", "3 entries".
std::string counted(std::int64_t count, std::string_view noun);

/// "0-2,5" from {0, 1, 2, 5}.
std::string rank_ranges(const std::vector<int>& ranks);

/// How many characters have to be replaced, inserted, removed or exchanged with their neighbour to make `b` of `a`;
/// nothing if they are too many for a misspelling: more than 1, from 6 characters on 2, from 12 on 3.
std::optional<std::size_t> misspelling(std::string_view a, std::string_view b);

}  // namespace lockstep
