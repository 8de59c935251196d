// How ranks share the rows of sequences (context parallelism): which of the B·T rows of a micro-batch, one for each
// token, a rank computes. Pure arithmetic.
//
// Along the ring each rank has two parts of each attention segment, one from its front and one from its back (zigzag),
// so that all see as many keys: of 2·R parts, which differ by one token at most, rank r has parts r and 2·R − 1 − r.
// Along ulysses ranks have neighbouring rows of those of their rank of the ring. Where a part is shorter than the
// longest of its segment, or rows do not divide, padding follows.
#pragma once

#include "layout/mesh.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

inline const AxisName ring_axis = "ring", ulysses_axis = "ulysses";

/// Axes along which ranks hold other rows of the same samples, the slowest first.
const std::vector<AxisName>& sequence_axes();

/// Ranks along these axes.
struct SequenceRanks {
  int ulysses = 1;  // Jacobs et al., "DeepSpeed Ulysses", 2023
  int ring = 1;     // Liu et al., "Ring Attention with Blockwise Transformers", 2023
  int count() const { return ring * ulysses; }
  bool operator==(const SequenceRanks&) const = default;
};
SequenceRanks sequence_ranks(const Mesh& mesh);
/// Those axes along which there are several.
std::vector<AxisName> axes_of(const SequenceRanks& ranks);

/// Where attention segments begin among the rows of a micro-batch, rising from 0, then their end.
using SegmentStarts = std::span<const std::int64_t>;

/// The rows that each of them holds, padding included.
std::int64_t rows_of_each(const SequenceRanks& ranks, SegmentStarts segments);
/// The most of any micro-batch of so many samples of a length, each of so many segments at most.
std::int64_t most_rows_of_each(const SequenceRanks& ranks, std::int64_t samples, std::int64_t length,
                               std::int64_t segments);

/// One of them.
struct SequencePlace {
  SequenceRanks ranks;
  int ulysses = 0, ring = 0;
  int index() const { return ring * ranks.ulysses + ulysses; }  // among all of them
};
SequencePlace sequence_place(const Mesh& mesh, Rank rank);

/// Rows that follow each other in a segment as in what ranks have that share them along ulysses.
struct SequencePart {
  std::int64_t row = 0;     // the first of these
  std::int64_t length = 0;  // 0: a short segment has no such part
  std::int64_t first = 0;   // index of the first in its segment
  bool operator==(const SequencePart&) const = default;
};
/// Two for each segment, those of a rank of the ring; of a ring of one rank each segment is one part, and the second
/// is empty.
std::vector<SequencePart> parts_of(const SequenceRanks& ranks, int ring, SegmentStarts segments);

/// By row that such a rank has together with those along ulysses: which of the micro-batch's rows it is; −1: padding.
std::vector<std::int64_t> attended_rows(const SequenceRanks& ranks, int ring, SegmentStarts segments);
/// The same by row of one rank.
std::vector<std::int64_t> rows_of(const SequencePlace& place, SegmentStarts segments);

/// The most pairs of a query and a key that a rank of the ring attends to, against their mean; with a window each query
/// sees so many keys at most (0: all up to its own).
double ring_imbalance(const SequenceRanks& ranks, SegmentStarts segments, std::int64_t window);

}  // namespace lockstep
