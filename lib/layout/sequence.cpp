#include "layout/sequence.hpp"

#include "base/rounding.hpp"

namespace lockstep {

const std::vector<AxisName>& sequence_axes() {
  static const std::vector<AxisName> axes{ulysses_axis};
  return axes;
}

SequenceRanks sequence_ranks(const Mesh& mesh) {
  SequenceRanks ranks;
  if (const Axis* axis = find_axis(mesh, ulysses_axis)) ranks.ulysses = axis->size;
  return ranks;
}

std::int64_t rows_of_each(const SequenceRanks& ranks, std::int64_t samples, std::int64_t length) {
  return divided_up(samples * length, ranks.ulysses);
}

SequencePlace sequence_place(const Mesh& mesh, Rank rank) {
  return {sequence_ranks(mesh), coordinate(mesh, rank, ulysses_axis)};
}

std::vector<std::int64_t> rows_of(const SequencePlace& place, std::int64_t samples, std::int64_t length) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(rows_of_each(place.ranks, samples, length)), -1);
  const std::int64_t first = place.ulysses * std::ssize(rows);
  for (std::int64_t i = 0; i < std::ssize(rows) && first + i < samples * length; ++i)
    rows[static_cast<std::size_t>(i)] = first + i;
  return rows;
}

}  // namespace lockstep
