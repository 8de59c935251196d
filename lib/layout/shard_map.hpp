// A shard map says how a buffer is shared out among the ranks of a group, in elements: what an all-gather brings
// together and a reduce-scatter takes apart. Every rank of the group has the same map. Which box of a tensor a rank
// holds: layout/layout.hpp. Who moves the elements: comm/transport.hpp.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// A run of elements that lie side by side both in the whole buffer and in their owner's shard.
struct ShardPiece {
  std::int64_t whole = 0;  // where it begins in the whole buffer
  std::int64_t shard = 0;  // and in the shard
  std::int64_t length = 0;
  bool operator==(const ShardPiece&) const = default;
};

struct ShardMap {
  std::int64_t whole_length = 0;
  std::int64_t shard_length = 0;                // of the longest shard; a rank may have a shorter one, or none
  std::vector<std::vector<ShardPiece>> pieces;  // by rank of the group; what no piece covers (padding) is nobody's
  bool operator==(const ShardMap&) const = default;
};

/// Throws Error(bug) where a piece has a negative length, leaves its buffer, or overlaps another one: in the whole
/// buffer any, in a shard one of the same rank.
void check(const ShardMap& map);

/// Elements that belong to some rank.
std::int64_t owned_elements(const ShardMap& map);

/// Goes through the pieces of one rank in portions. Two ranks that go through the same pieces get the same portions.
class ShardPortions {
 public:
  explicit ShardPortions(const std::vector<ShardPiece>& pieces) : pieces_(&pieces) {}
  /// The next `length` elements, in `into`: pieces in order, the first and the last perhaps cut. Fewer, and then none,
  /// at the end. Returns how many elements they are.
  std::int64_t next(std::int64_t length, std::vector<ShardPiece>& into);

 private:
  const std::vector<ShardPiece>* pieces_;
  std::size_t piece_ = 0;
  std::int64_t taken_ = 0;  // of that piece
};

}  // namespace lockstep
