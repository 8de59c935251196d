// If replicas differ, their ranks form sides: the ranks of one side hold the same bytes. How two copies differ:
// checkpoint/difference.hpp.
#pragma once

#include "layout/mesh.hpp"

#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The first side counts as right: it is the largest or, among equally large ones, the one with the lowest rank. The
/// other sides follow by their lowest ranks. Ranks of a side ascend.
using Sides = std::vector<std::vector<Rank>>;

/// Returns the sides for the digest of each rank. A rank with an empty digest holds nothing to compare and is in no
/// side. Pure.
Sides sides_of(std::span<const std::string> seen);

/// Returns whether there are three or more ranks and more than half of them are on the right side. Pure.
bool has_majority(const Sides& sides);

/// The ranks that represent both sides when a difference is examined: the first of the right side, and the first of the
/// next side. There must be at least two sides. Pure.
Rank right_of(const Sides& sides);
Rank wrong_of(const Sides& sides);

/// Returns "rank 1 against ranks 0,2", or with several wrong sides "rank 1 and rank 2 against ranks 0,3". Pure.
std::string to_text(const Sides& sides);

}  // namespace lockstep
