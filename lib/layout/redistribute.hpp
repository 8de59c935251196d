// Plans the copies that convert a tensor from one layout to another. Pure arithmetic; the callers move the bytes.
#pragma once

#include "layout/layout.hpp"

#include <vector>

namespace lockstep {

/// One box that moves from a rank of the old layout to a rank of the new one; source and destination are equal if
/// nothing has to be sent.
struct Copy {
  Rank source = 0;
  Rank destination = 0;
  Box box;  // of the logical tensor
  bool operator==(const Copy&) const = default;
};

/// Returns the copies that `rank` receives, then those it sends to others. The plans of all ranks match: a destination
/// gets each of its elements exactly once, from itself if it holds it, else from the holder with the nearest rank (the
/// lower one of two). The worlds may differ in size; a rank that is missing in one of them sends or receives nothing
/// there. Throws Error(usage) if the global shapes differ, and as check(). Takes time linear in the number of ranks.
std::vector<Copy> redistribute(const Layout& from, const Layout& to, Rank rank);

}  // namespace lockstep
