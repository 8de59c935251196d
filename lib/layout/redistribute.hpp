// What moves when a tensor goes from one layout to another: who sends which box to whom. Pure arithmetic; who moves
// bytes uses this plan.
#pragma once

#include "layout/layout.hpp"

#include <vector>

namespace lockstep {

/// One box that goes from a rank of the old layout to a rank of the new one; the same rank where nothing has to be
/// sent.
struct Copy {
  Rank source = 0;
  Rank destination = 0;
  Box box;  // of the logical tensor
  bool operator==(const Copy&) const = default;
};

/// The copies that `rank` receives, then those it sends to others. Every rank that computes its own part gets parts
/// that fit: a destination gets each of its elements exactly once, from itself if it holds it, else from the holder
/// with the nearest rank (the lower one of two). The worlds may differ in size; a rank that one of them lacks sends or
/// receives nothing there. Throws Usage if the global shapes differ, and as check(). Costs time linear in the ranks.
std::vector<Copy> redistribute(const Layout& from, const Layout& to, Rank rank);

}  // namespace lockstep
