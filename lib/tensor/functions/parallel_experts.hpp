// Expert parallelism (Lepikhin et al., "GShard", 2020): rows are sent to the ranks that hold their experts, and the
// outputs are sent back. No row is dropped: rows beyond the capacity of a rank's experts go in further rounds.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/activation.hpp"
#include "tensor/functions/experts.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// The plan of expert-parallel exchanges, round by round. All ranks compute it from the same table and get the same
/// plan. Pure.
class ExpertRoutePlan {
 public:
  /// table (P, E) fp64 in host memory: the number of rows of each of P ranks for each expert. Each rank holds E / P
  /// experts, in their order. In one round a rank's experts take at most `capacity` times the rows that they get with
  /// an even spread.
  ExpertRoutePlan(const at::Tensor& table, int rank, double capacity);

  std::int64_t rounds() const { return rounds_; }  // at least one
  struct Round {
    std::vector<std::int64_t> first, sent;  // by rank: first row and number of rows to send there
    std::vector<std::int64_t> received;     // by rank: number of rows that arrive from there
    /// Rows from one rank for one expert: their position among all arrived rows, which are ordered by rank, and among
    /// the rows grouped by expert.
    struct Segment {
      std::int64_t arrived = 0, grouped = 0, rows = 0;
    };
    std::vector<Segment> segments;
    at::Tensor offsets;  // (E / P + 1) int64 in host memory: for this rank's experts, as Routing::offsets
    std::int64_t taken() const;
  };
  Round round(std::int64_t number) const;

 private:
  std::int64_t count(std::int64_t from, std::int64_t expert) const {
    return counts_[static_cast<std::size_t>(from * experts_ + expert)];
  }
  std::vector<std::int64_t> counts_;  // (P, E)
  std::int64_t ranks_, experts_, rank_, at_once_ = 1, rounds_ = 1;
};

/// The table of ExpertRoutePlan. On a device other than the CPU, the calling thread waits once. Collective over the
/// ranks of `lane`.
at::Tensor expert_table(const Routing& routing, const BlockLane& lane);

/// Stays at one address as long as autograd may call it.
class ParallelExperts {
 public:
  /// `up` and `down` are the layers of this rank's experts.
  ParallelExperts(const GroupedLinear& up, const GroupedLinear& down, Activation activation, double capacity)
      : up_(&up), down_(&down), activation_(activation), capacity_(capacity) {}
  ParallelExperts(const ParallelExperts&) = delete;
  ParallelExperts& operator=(const ParallelExperts&) = delete;
  void share(const BlockLane* lane) { lane_ = lane; }

  /// Values that recomputation keeps: the first round before the activation, and the outputs of all rounds. The first
  /// pass stores them if `leaves` is set; the repeated pass uses them.
  struct Values {
    at::Tensor raised, lowered;
    bool leaves = false;
  };
  /// x (N, C) compute type → (R, C): the outputs of the experts for its rows, grouped by expert. Values that are
  /// already known are used. The first round is saved for backward; rows of further rounds are sent to the experts
  /// again. Collective over the ranks that share the experts.
  at::Tensor operator()(const at::Tensor& x, const Routing& routing, const at::Tensor& table, Values& values) const;

  FunctionCosts costs(const at::Tensor& x, const Routing& routing, const at::Tensor& table, const Values& values) const;

 private:
  friend struct ParallelExpertsFunction;
  at::Tensor to_experts(const at::Tensor& rows, const ExpertRoutePlan::Round& round) const;
  /// Sends outputs back and stores them in `rows`; they are this round's part of it.
  void from_experts(const at::Tensor& grouped, const ExpertRoutePlan::Round& round, const at::Tensor& rows) const;
  ExpertRoutePlan ways(const at::Tensor& table) const { return {table, lane_->rank(), capacity_}; }

  const GroupedLinear *up_, *down_;
  Activation activation_;
  double capacity_;
  const BlockLane* lane_ = nullptr;
};

}  // namespace lockstep
