#include "store/write_plan.hpp"

#include "base/error.hpp"
#include "layout/box_runs.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace lockstep {

namespace {

std::uint64_t bytes_of(const Box& box, int element_bytes) {
  return static_cast<std::uint64_t>(elements(box)) * static_cast<std::uint64_t>(element_bytes);
}

struct PieceToPlace {
  WriteItem item;
  const std::vector<Rank>* holders;
  std::uint64_t bytes;
};

}  // namespace

std::vector<Box> pieces_of(const Box& box, int element_bytes, std::uint64_t limit) {
  const std::uint64_t bytes = bytes_of(box, element_bytes);
  if (bytes <= limit || box.extent.empty() || box.extent[0] < 2) return {box};
  const std::int64_t rows = box.extent[0];
  const std::uint64_t row = bytes / static_cast<std::uint64_t>(rows);
  const std::int64_t most = std::max<std::int64_t>(1, static_cast<std::int64_t>(limit / row));
  const std::int64_t pieces = (rows + most - 1) / most;
  std::vector<Box> result;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = rows * i / pieces;
    result.push_back(rows_of(box, first, rows * (i + 1) / pieces - first));
  }
  return result;
}

std::vector<Holding> holdings_of(const Layout& layout) {
  std::vector<Holding> holdings;
  std::map<std::pair<Shape, Shape>, std::size_t> known;
  for (Rank rank = 0; rank < world_size(layout.mesh); ++rank) {
    const Box box = box_of(layout, rank);
    if (empty(box)) continue;
    const auto [entry, is_new] = known.try_emplace({box.begin, box.extent}, holdings.size());
    if (is_new) holdings.push_back({box, {}});
    holdings[entry->second].ranks.push_back(rank);
  }
  std::vector<Box> boxes;
  for (const Holding& holding : holdings) boxes.push_back(holding.box);
  if (const auto defect = coverage_defect(layout.global, boxes))
    fail(ExitCode::usage, "the ranks do not hold a tensor of shape {} exactly once: {}", to_text(layout.global),
         *defect);
  return holdings;
}

std::vector<WriteItem> plan_writes(std::span<const std::vector<Holding>> tensors, std::span<const int> element_bytes,
                                   std::uint64_t limit) {
  std::vector<PieceToPlace> candidates;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    for (const Holding& holding : tensors[tensor]) {
      for (const Box& box : pieces_of(holding.box, element_bytes[tensor], limit)) {
        candidates.push_back({{tensor, box, 0}, &holding.ranks, bytes_of(box, element_bytes[tensor])});
      }
    }
  }
  const auto place = [](const PieceToPlace& candidate) {
    return std::tie(candidate.item.tensor, candidate.item.box.begin);
  };
  std::ranges::sort(candidates, [&](const PieceToPlace& a, const PieceToPlace& b) {
    return std::tuple(~a.bytes, place(a)) < std::tuple(~b.bytes, place(b));
  });
  std::map<std::vector<Rank>, std::vector<std::uint64_t>> loads;  // by those who hold the same
  for (PieceToPlace& candidate : candidates) {
    const std::vector<Rank>& holders = *candidate.holders;
    std::vector<std::uint64_t>& load = loads[holders];
    load.resize(holders.size(), 0);
    const auto least = std::ranges::min_element(load);  // the first of equals: the lowest rank
    candidate.item.writer = holders[static_cast<std::size_t>(least - load.begin())];
    *least += candidate.bytes;
  }
  std::ranges::sort(candidates, {}, place);
  std::vector<WriteItem> items;
  for (PieceToPlace& candidate : candidates) items.push_back(std::move(candidate.item));
  return items;
}

std::uint64_t piece_limit(std::uint64_t bytes, int writers) {
  return std::clamp(bytes / (static_cast<std::uint64_t>(writers) * 8), std::uint64_t{1} << 20, std::uint64_t{64} << 20);
}

std::optional<std::string> coverage_defect(const Shape& shape, std::span<const Box> boxes) {
  std::int64_t covered = 0;
  for (const Box& box : boxes) {
    if (empty(box)) continue;
    if (box.extent.size() != shape.size() || !contains(whole(shape), box))
      return fmt::format("{} lies outside of {}", to_text(box), to_text(shape));
    covered += elements(box);
  }
  // Boxes sorted by their first row: a box can only overlap those before it that still reach its first row.
  std::vector<const Box*> sorted;
  for (const Box& box : boxes) {
    if (!empty(box)) sorted.push_back(&box);
  }
  std::sort(sorted.begin(), sorted.end(), [](const Box* a, const Box* b) { return a->begin < b->begin; });
  std::vector<const Box*> reaching;
  for (const Box* box : sorted) {
    if (!shape.empty())
      std::erase_if(reaching, [&](const Box* other) { return other->begin[0] + other->extent[0] <= box->begin[0]; });
    for (const Box* other : reaching) {
      if (!empty(intersect(*other, *box))) return fmt::format("{} and {} overlap", to_text(*other), to_text(*box));
    }
    reaching.push_back(box);
  }
  const std::int64_t missing = elements(shape) - covered;
  if (missing != 0) return fmt::format("{} of {} elements are missing", missing, elements(shape));
  return std::nullopt;
}

}  // namespace lockstep
