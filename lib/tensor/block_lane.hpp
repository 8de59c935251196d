// Communication inside a block: collectives among the ranks that share a block, or the rows that it computes (tensor,
// sequence, context and expert parallelism). They run on a lane of their own, and the caller waits for them. Each must
// be declared in program/block_exchange.hpp.
#pragma once

#include "base/rounding.hpp"
#include "comm/transport.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

class BlockLane {
 public:
  /// A lane among the ranks of a group of `transport`, which outlives this; `rank` is this rank in the world. With
  /// Rows::shared (sequence parallelism) each rank holds ⌈N/ranks⌉ of the N rows of a micro-batch between the matrices.
  /// The last rows of the last ranks are padding with a zero gradient.
  enum class Rows { whole, shared };
  BlockLane(Transport& transport, int lane, int group, Rank rank, Rows rows = Rows::whole);

  int ranks() const { return static_cast<int>(transport_->members(group_).size()); }
  int rank() const { return rank_; }                                                // this rank in the group
  const std::vector<Rank>& members() const { return transport_->members(group_); }  // world ranks, by rank of the group
  bool shares_rows() const { return rows_ == Rows::shared; }
  std::int64_t own_rows(std::int64_t rows) const { return ceil_div(rows, std::int64_t{ranks()}); }

  // All below are collective over the ranks that share the block, and take contiguous tensors.
  /// Replaces x by its sum over the ranks, added in rank order: all ranks get the same bits.
  void all_reduce(const at::Tensor& x) const;
  /// (n, …) of each rank → (ranks, n, …).
  at::Tensor all_gather(const at::Tensor& x) const;
  /// (ranks, n, …), one part for each rank → (ranks, n, …), one part from each rank.
  at::Tensor all_to_all(const at::Tensor& parts) const;
  /// rows (Σ sent, C), grouped by receiving rank → (Σ received, C), grouped by sending rank.
  at::Tensor all_to_all_rows(const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                             const std::vector<std::int64_t>& received) const;
  /// Starts a ring shift: sends x to the next rank of the group and receives from the previous one. `ended` waits and
  /// returns the received tensor.
  struct Shifted {
    at::Tensor given, value;
    Ticket ticket;
  };
  Shifted start_shift(const at::Tensor& x) const;
  at::Tensor ended(Shifted shifted) const;
  /// (⌈rows/ranks⌉, C) of each rank → (rows, C).
  at::Tensor gather_rows(const at::Tensor& own, std::int64_t rows) const;
  /// Returns this rank's part of the values (N), one for each row → (⌈N/ranks⌉); padding gets `otherwise`.
  at::Tensor own_part(const at::Tensor& of_rows, std::int64_t otherwise) const;
  /// Reduce-scatter: returns this rank's rows of the sum of x (N, C) over the ranks, added in rank order → (⌈N/ranks⌉,
  /// C); padding is zero.
  at::Tensor scatter_rows(const at::Tensor& x) const;
  /// Adds the result of scatter_rows(x) to `onto`.
  void reduce_scatter_rows_into(const at::Tensor& x, const at::Tensor& onto) const;

 private:
  ShardMap row_map(std::int64_t rows, std::int64_t columns) const;
  Transport* transport_;
  int lane_, group_, rank_;
  Rows rows_;
};

inline bool shares_rows(const BlockLane* lane) { return lane != nullptr && lane->shares_rows(); }

/// Lanes of a block by axis; nullptr: this rank is the only one along that axis.
struct BlockLanes {
  const BlockLane* tensor = nullptr;
  const BlockLane* ulysses = nullptr;
  const BlockLane* ring = nullptr;
  const BlockLane* experts = nullptr;
  const BlockLane* samples = nullptr;  // all ranks with rows of the same samples of a stream
};

}  // namespace lockstep
