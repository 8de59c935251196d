#include "layout/sequence.hpp"

#include "base/rounding.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Rows that each rank of the ring has of a segment, in two parts.
std::int64_t ring_rows(std::int64_t ring, std::int64_t length) {
  return ring == 1 ? length : 2 * ceil_div(length, 2 * ring);
}

/// Pairs of the first `queries` queries of a segment with the keys that they see.
double pairs_up_to(std::int64_t queries, std::int64_t window) {
  const auto triangle = [](std::int64_t rows) { return static_cast<double>(rows) * static_cast<double>(rows + 1) / 2; };
  if (window == 0 || queries <= window) return triangle(queries);
  return triangle(window) + static_cast<double>(queries - window) * static_cast<double>(window);
}

}  // namespace

const std::vector<AxisName>& sequence_axes() {
  static const std::vector<AxisName> axes{ring_axis, ulysses_axis};
  return axes;
}

SequenceRanks sequence_ranks(const Mesh& mesh) {
  SequenceRanks ranks;
  if (const Axis* axis = find_axis(mesh, ulysses_axis)) ranks.ulysses = axis->size;
  if (const Axis* axis = find_axis(mesh, ring_axis)) ranks.ring = axis->size;
  return ranks;
}

std::vector<AxisName> axes_of(const SequenceRanks& ranks) {
  std::vector<AxisName> axes;
  if (ranks.ring > 1) axes.push_back(ring_axis);
  if (ranks.ulysses > 1) axes.push_back(ulysses_axis);
  return axes;
}

std::int64_t rows_of_each(const SequenceRanks& ranks, SegmentStarts segments) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) rows += ring_rows(ranks.ring, segments[i + 1] - segments[i]);
  return ceil_div(rows, std::int64_t{ranks.ulysses});
}

std::int64_t most_rows_of_each(const SequenceRanks& ranks, std::int64_t samples, std::int64_t length,
                               std::int64_t segments) {
  if (ranks.ring == 1) return ceil_div(samples * length, std::int64_t{ranks.ulysses});
  // Segments of one token but for one, which has the rest: any other lengths give as many rows or fewer.
  const std::int64_t short_ones = std::min(segments, length) - 1;
  const std::int64_t of_sample = 2 * short_ones + ring_rows(ranks.ring, length - short_ones);
  return ceil_div(samples * of_sample, std::int64_t{ranks.ulysses});
}

SequencePlace sequence_place(const Mesh& mesh, Rank rank) {
  return {sequence_ranks(mesh), coordinate(mesh, rank, ulysses_axis), coordinate(mesh, rank, ring_axis)};
}

std::vector<SequencePart> parts_of(const SequenceRanks& ranks, int ring, SegmentStarts segments) {
  std::vector<SequencePart> parts;
  std::int64_t row = 0;
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
    const std::int64_t length = segments[i + 1] - segments[i], count = 2 * std::int64_t{ranks.ring};
    const std::int64_t rows = ring_rows(ranks.ring, length);
    if (ranks.ring == 1) {
      parts.push_back({row, length, 0});
      parts.push_back({row + length, 0, length});
    } else {
      for (const std::int64_t part : {std::int64_t{ring}, count - 1 - ring}) {
        const std::int64_t first = length * part / count, end = length * (part + 1) / count;
        parts.push_back({part == ring ? row : row + rows / 2, end - first, first});
      }
    }
    row += rows;
  }
  return parts;
}

std::vector<std::int64_t> attended_rows(const SequenceRanks& ranks, int ring, SegmentStarts segments) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(rows_of_each(ranks, segments) * ranks.ulysses), -1);
  const std::vector<SequencePart> parts = parts_of(ranks, ring, segments);
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::int64_t at = 0; at < parts[i].length; ++at)
      rows[static_cast<std::size_t>(parts[i].row + at)] = segments[i / 2] + parts[i].first + at;
  return rows;
}

std::vector<std::int64_t> rows_of(const SequencePlace& place, SegmentStarts segments) {
  const std::vector<std::int64_t> attended = attended_rows(place.ranks, place.ring, segments);
  const std::ptrdiff_t own = std::ssize(attended) / place.ranks.ulysses;
  return {attended.begin() + place.ulysses * own, attended.begin() + (place.ulysses + 1) * own};
}

double ring_imbalance(const SequenceRanks& ranks, SegmentStarts segments, std::int64_t window) {
  double most = 0, all = 0;
  for (int ring = 0; ring < ranks.ring; ++ring) {
    double pairs = 0;
    for (const SequencePart& part : parts_of(ranks, ring, segments))
      pairs += pairs_up_to(part.first + part.length, window) - pairs_up_to(part.first, window);
    most = std::max(most, pairs);
    all += pairs;
  }
  return all > 0 ? most * ranks.ring / all : 1;
}

}  // namespace lockstep
