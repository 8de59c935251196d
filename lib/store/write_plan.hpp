// A write plan assigns pieces of tensors to writers: each element once, and equal bytes among the ranks that hold it.
// Pure arithmetic on layouts, the same on every rank. The files of the pieces: store/checkpoint_plan.hpp.
#pragma once

#include "layout/layout.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// One distinct box of a tensor and the ranks that hold it.
struct Holding {
  Box box;
  std::vector<Rank> ranks;  // ascending
};

/// Returns the distinct non-empty boxes of a layout, by lowest holder. Throws Error(usage) if they do not cover the
/// tensor exactly once.
std::vector<Holding> holdings_of(const Layout& layout);

struct WriteItem {
  std::size_t tensor = 0;  // number in the plan's input
  Box box;
  Rank writer = 0;
};

/// Cuts a box into pieces of whole rows, as equal as possible, of at most `limit` bytes (a row is never cut). Pure.
std::vector<Box> pieces_of(const Box& box, int element_bytes, std::uint64_t limit);

/// Cuts each holding with pieces_of and gives each piece to one of its holders. Ranks that hold the same boxes share
/// them evenly: the largest piece first, each to the least-loaded rank. So the writer of a piece depends only on the
/// ranks that hold it. A tensor without elements has no piece. Items are ordered by tensor, then by their place in it.
/// Pure.
std::vector<WriteItem> plan_writes(std::span<const std::vector<Holding>> tensors, std::span<const int> element_bytes,
                                   std::uint64_t limit);

/// Returns the piece size in bytes with which `writers` share `bytes` evenly: an eighth of a writer's share, from 1 MiB
/// to 64 MiB.
std::uint64_t piece_limit(std::uint64_t bytes, int writers);

/// Returns nothing if the boxes hold every element of a tensor exactly once, else the first defect: "[0:3, 0:4] and
/// [2:5, 0:4] overlap", "12 of 60 elements are missing".
std::optional<std::string> coverage_defect(const Shape& shape, std::span<const Box> boxes);

}  // namespace lockstep
