// How ranks share the rows of sequences (context parallelism): which of the B·T rows of a micro-batch, one for each
// token, a rank computes. Pure arithmetic.
#pragma once

#include "layout/mesh.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

inline const AxisName ulysses_axis = "ulysses";

/// Axes along which ranks hold other rows of the same samples, the slowest first.
const std::vector<AxisName>& sequence_axes();

/// Ranks along these axes.
struct SequenceRanks {
  int ulysses = 1;  // each holds neighbouring rows of all (Jacobs et al., "DeepSpeed Ulysses", 2023)
  int count() const { return ulysses; }
  bool operator==(const SequenceRanks&) const = default;
};
SequenceRanks sequence_ranks(const Mesh& mesh);

/// The rows that each of them holds of so many samples of a length; where they do not divide, padding follows the last.
std::int64_t rows_of_each(const SequenceRanks& ranks, std::int64_t samples, std::int64_t length);

/// One of them.
struct SequencePlace {
  SequenceRanks ranks;
  int ulysses = 0;
  int index() const { return ulysses; }  // among all of them
};
SequencePlace sequence_place(const Mesh& mesh, Rank rank);

/// By row of this rank: which of the micro-batch's rows it is; −1: padding.
std::vector<std::int64_t> rows_of(const SequencePlace& place, std::int64_t samples, std::int64_t length);

}  // namespace lockstep
