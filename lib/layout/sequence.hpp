// Context parallelism: which of the B·T rows of a micro-batch, one for each token, each rank computes. Pure arithmetic.
//
// Along the ring each rank has two parts of each attention segment, one from its front and one from its back (zigzag),
// so that all ranks attend to about the same number of keys. Of 2·R parts, which differ by one token at most, rank r
// has parts r and 2·R − 1 − r. Along ulysses the rows of a ring rank are divided into consecutive ranges. Padding
// follows a part that is shorter than the longest of its segment, and rows that do not divide evenly.
#pragma once

#include "layout/mesh.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

inline const AxisName ring_axis = "ring", ulysses_axis = "ulysses";

/// Axes along which ranks hold different rows of the same samples, the slowest first.
const std::vector<AxisName>& sequence_axes();

/// Number of ranks along these axes.
struct SequenceRanks {
  int ulysses = 1;  // Jacobs et al., "DeepSpeed Ulysses", 2023
  int ring = 1;     // Liu et al., "Ring Attention with Blockwise Transformers", 2023
  int count() const { return ring * ulysses; }
  bool operator==(const SequenceRanks&) const = default;
};
SequenceRanks sequence_ranks(const Mesh& mesh);
/// Returns the axes with more than one rank.
std::vector<AxisName> axes_of(const SequenceRanks& ranks);

/// Rows of a micro-batch at which attention segments begin, rising from 0, then the end of the last.
using SegmentStarts = std::span<const std::int64_t>;

/// Rows that each rank holds, padding included.
std::int64_t rows_of_each(const SequenceRanks& ranks, SegmentStarts segments);
/// The largest rows_of_each of a micro-batch with `samples` samples of `length` tokens and at most `segments` segments
/// each.
std::int64_t most_rows_of_each(const SequenceRanks& ranks, std::int64_t samples, std::int64_t length,
                               std::int64_t segments);

/// One rank, by its coordinates.
struct SequencePlace {
  SequenceRanks ranks;
  int ulysses = 0, ring = 0;
  int index() const { return ring * ranks.ulysses + ulysses; }  // among all of these ranks
};
SequencePlace sequence_place(const Mesh& mesh, Rank rank);

/// A range of rows that is contiguous both in a segment and in the rows that the ranks along ulysses hold together.
struct SequencePart {
  std::int64_t row = 0;     // first row, among the rows of the ranks along ulysses
  std::int64_t length = 0;  // 0: the segment is too short for this part
  std::int64_t first = 0;   // index of the first row in its segment
  bool operator==(const SequencePart&) const = default;
};
/// Returns two parts for each segment, of one rank of the ring. With one ring rank the first part is the whole segment,
/// and the second is empty.
std::vector<SequencePart> parts_of(const SequenceRanks& ranks, int ring, SegmentStarts segments);

/// For each row that a ring rank holds together with its ranks along ulysses: its row in the micro-batch; −1: padding.
std::vector<std::int64_t> attended_rows(const SequenceRanks& ranks, int ring, SegmentStarts segments);
/// For each row of one rank: its row in the micro-batch; −1: padding.
std::vector<std::int64_t> rows_of(const SequencePlace& place, SegmentStarts segments);

/// Load imbalance of the ring: the largest number of query-key pairs of a ring rank over the mean. With a window each
/// query attends to `window` keys at most (0: to all keys up to its own).
double ring_imbalance(const SequenceRanks& ranks, SegmentStarts segments, std::int64_t window);

}  // namespace lockstep
