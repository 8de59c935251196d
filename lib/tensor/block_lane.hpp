// How ranks that share a block, or the rows that it computes, speak with each other in the middle of its computation:
// on a lane of their own, which is awaited. What is said must be declared (program/block_exchange.hpp).
#pragma once

#include "base/rounding.hpp"
#include "comm/transport.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

class BlockLane {
 public:
  /// Among the ranks of a group of `transport`, which outlives this; `rank` is this one in the world. Where they share
  /// rows (sequence parallelism) each has ⌈N/ranks⌉ rows of what lies between the matrices of a micro-batch of N, the
  /// last ones of the last ranks padding, whose gradient is zero.
  enum class Rows { whole, shared };
  BlockLane(Transport& transport, int lane, int group, Rank rank, Rows rows = Rows::whole);

  int ranks() const { return static_cast<int>(transport_->members(group_).size()); }
  int rank() const { return rank_; }                                                // of this one in the group
  const std::vector<Rank>& members() const { return transport_->members(group_); }  // in the world, by rank of it
  bool shares_rows() const { return rows_ == Rows::shared; }
  std::int64_t own_rows(std::int64_t rows) const { return divided_up(rows, std::int64_t{ranks()}); }

  // Collective over the ranks that share the block; contiguous tensors.
  /// Replaces x by its sum over the ranks, in their order: all get the same bits.
  void all_reduce(const at::Tensor& x) const;
  /// (n, …) of each rank → (ranks, n, …).
  at::Tensor all_gather(const at::Tensor& x) const;
  /// (ranks, n, …), a part for each rank → the same, a part of each rank.
  at::Tensor all_to_all(const at::Tensor& parts) const;
  /// Rows (Σ sent, C), those for each rank in turn → (Σ received, C), those of each rank in turn.
  at::Tensor all_to_all_rows(const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                             const std::vector<std::int64_t>& received) const;
  /// To the next rank of the group, and around: what the rank before gave. `ended` waits for it.
  struct Shifted {
    at::Tensor given, value;
    Ticket ticket;
  };
  Shifted start_shift(const at::Tensor& x) const;
  at::Tensor ended(Shifted shifted) const;
  /// (⌈rows/ranks⌉, C) of each rank → (rows, C).
  at::Tensor gather_rows(const at::Tensor& own, std::int64_t rows) const;
  /// Of values (N), one for each row, those of this rank's → (⌈N/ranks⌉); padding gets `otherwise`.
  at::Tensor own_part(const at::Tensor& of_rows, std::int64_t otherwise) const;
  /// Of the sum of x (N, C) over the ranks, in their order, the rows of this one → (⌈N/ranks⌉, C); padding is zero.
  at::Tensor scatter_rows(const at::Tensor& x) const;
  /// The same, added to `onto`.
  void scatter_rows_onto(const at::Tensor& x, const at::Tensor& onto) const;

 private:
  ShardMap row_map(std::int64_t rows, std::int64_t columns) const;
  Transport* transport_;
  int lane_, group_, rank_;
  Rows rows_;
};

inline bool shares_rows(const BlockLane* lane) { return lane != nullptr && lane->shares_rows(); }

/// BlockLanes are those that a block speaks on, by axis; null: this rank is the only one along it.
struct BlockLanes {
  const BlockLane* tensor = nullptr;
  const BlockLane* ulysses = nullptr;
  const BlockLane* ring = nullptr;
  const BlockLane* experts = nullptr;
  const BlockLane* samples = nullptr;  // all that have rows of the same samples of a stream
};

}  // namespace lockstep
