// How ranks that share a block, or the rows that it computes, speak with each other in the middle of its computation:
// on a lane of their own, which is awaited. What is said must be declared (program/block_exchange.hpp).
#pragma once

#include "comm/transport.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

class BlockLane {
 public:
  /// Among the ranks of a group of `transport`, which outlives this; `rank` is this one in the world.
  BlockLane(Transport& transport, int lane, int group, Rank rank);

  int ranks() const { return static_cast<int>(transport_->members(group_).size()); }
  int rank() const { return rank_; }  // of this one in the group

  // Collective over the ranks that share the block; contiguous tensors.
  /// Replaces x by its sum over the ranks, in their order: all get the same bits.
  void all_reduce(const at::Tensor& x) const;
  /// (n, …) of each rank → (ranks, n, …).
  at::Tensor all_gather(const at::Tensor& x) const;
  /// (ranks, n, …), a part for each rank → the same, a part of each rank.
  at::Tensor all_to_all(const at::Tensor& parts) const;

 private:
  Transport* transport_;
  int lane_, group_, rank_;
};

/// BlockLanes are those that a block speaks on, by axis; null: this rank is the only one along it.
struct BlockLanes {
  const BlockLane* tensor = nullptr;
  const BlockLane* ulysses = nullptr;
};

}  // namespace lockstep
