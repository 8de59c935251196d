// Ranks that should hold the same and do not fall into sides: within a side all have the same.
#pragma once

#include "layout/mesh.hpp"

#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The side held right comes first: the largest, of equally large ones that of the lowest rank; then the others, by
/// their lowest ranks. Ranks of a side ascend.
using Sides = std::vector<std::vector<Rank>>;

/// The sides of the ranks, each of which was seen to have a digest; those of empty text hold nothing that is compared.
/// Pure.
Sides sides_of(std::span<const std::string> seen);

/// Whether more than half of three or more ranks are on the right side. Pure.
bool has_majority(const Sides& sides);

/// The ranks that represent both sides where one difference is looked into: the first of the right side and of the
/// others. Of two sides or more.
Rank right_of(const Sides& sides);
Rank wrong_of(const Sides& sides);

/// "rank 1 against ranks 0,2"; of several wrong sides "rank 1 and rank 2 against ranks 0,3". Pure.
std::string to_text(const Sides& sides);

}  // namespace lockstep
