// A write plan says who writes which piece of which tensor: each element once, equal bytes shared among the ranks that
// hold them. Pure arithmetic on layouts; the same on every rank. store/checkpoint_plan.hpp says into which files the
// pieces go.
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

/// The distinct non-empty boxes of a layout, by lowest holder. Throws Error(usage) if they do not cover the tensor
/// exactly once.
std::vector<Holding> holdings_of(const Layout& layout);

struct WriteItem {
  std::size_t tensor = 0;  // number in the plan's input
  Box box;
  Rank writer = 0;
};

/// A box in pieces of whole rows, as equal as they can be, of at most `limit` bytes (a row is never cut). Pure.
std::vector<Box> pieces_of(const Box& box, int element_bytes, std::uint64_t limit);

/// Each holding in pieces_of it, each given to one of its holders. What the same ranks hold they share evenly: the most
/// bytes first, each to the least-loaded; so who writes what they hold does not hang on what others hold. A tensor
/// without elements has no piece. Items are ordered by tensor, then by their place in it. Pure.
std::vector<WriteItem> plan_writes(std::span<const std::vector<Holding>> tensors, std::span<const int> element_bytes,
                                   std::uint64_t limit);

/// The piece size that lets `writers` share `bytes` evenly: an eighth of a writer's share, between 1 MiB and 64 MiB.
std::uint64_t piece_limit(std::uint64_t bytes, int writers);

/// Nothing if the boxes hold every element of a tensor exactly once, else the first defect: "[0:3, 0:4] and [2:5, 0:4]
/// overlap", "12 of 60 elements are missing".
std::optional<std::string> coverage_defect(const Shape& shape, std::span<const Box> boxes);

}  // namespace lockstep
