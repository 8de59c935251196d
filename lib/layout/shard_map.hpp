// A shard map says how the elements of a buffer are divided among the ranks of a group, for all-gathers and
// reduce-scatters. Every rank of the group has the same map. Boxes of tensors: layout/layout.hpp. Communication:
// comm/transport.hpp.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// A run of elements that is contiguous in the whole buffer and in its owner's shard.
struct ShardPiece {
  std::int64_t whole = 0;  // begin in the whole buffer
  std::int64_t shard = 0;  // begin in the shard
  std::int64_t length = 0;
  bool operator==(const ShardPiece&) const = default;
};

struct ShardMap {
  std::int64_t whole_length = 0;
  std::int64_t shard_length = 0;  // of the longest shard; a rank may have a shorter one, or none
  // By rank of the group. Elements without a piece (padding) belong to nobody.
  std::vector<std::vector<ShardPiece>> pieces;
  bool operator==(const ShardMap&) const = default;
};

/// Throws Error(bug) if a piece has a negative length, leaves its buffer, or overlaps another piece: any piece in the
/// whole buffer, or a piece of the same rank in its shard.
void check(const ShardMap& map);

/// Number of elements that belong to some rank.
std::int64_t owned_elements(const ShardMap& map);

/// Iterates over the pieces of one rank in portions. Two ranks that iterate over the same pieces get the same portions.
class ShardPortions {
 public:
  explicit ShardPortions(const std::vector<ShardPiece>& pieces) : pieces_(&pieces) {}
  /// Stores the next `length` elements in `into`, as pieces in order; the first and the last may be cut. Returns their
  /// number, which is smaller at the end, and then 0.
  std::int64_t next(std::int64_t length, std::vector<ShardPiece>& into);

 private:
  const std::vector<ShardPiece>* pieces_;
  std::size_t piece_ = 0;
  std::int64_t taken_ = 0;  // elements of that piece already returned
};

}  // namespace lockstep
