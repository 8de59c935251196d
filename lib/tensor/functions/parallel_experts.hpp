// Experts that ranks share out (Lepikhin et al., "GShard", 2020): rows go to the ranks that have their experts, and
// what these give comes back. No row is dropped: what a rank's experts cannot take at once goes in further rounds.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/activation.hpp"
#include "tensor/functions/experts.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// Where rows go, round by round. All ranks make it of the same table, and so agree. Pure.
class ExpertWays {
 public:
  /// table (P, E) fp64 in host memory: how many rows of each of P ranks go to each expert, of which the ranks have E /
  /// P each, in their order. A rank's experts take at once `capacity` times what they get where rows spread evenly.
  ExpertWays(const at::Tensor& table, int rank, double capacity);

  std::int64_t rounds() const { return rounds_; }  // at least one
  struct Round {
    std::vector<std::int64_t> first, sent;  // by rank: its part of this rank's rows, which are grouped by expert
    std::vector<std::int64_t> received;     // by rank: rows that come from there
    /// Rows that come from one rank for one expert: among all that arrive, rank by rank, and grouped by expert.
    struct Segment {
      std::int64_t arrived = 0, grouped = 0, rows = 0;
    };
    std::vector<Segment> segments;
    at::Tensor offsets;  // (E / P + 1) int64 in host memory: of this rank's experts, as Routing::offsets
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

/// The table of ExpertWays. Collective over the ranks of `lane`.
at::Tensor expert_table(const Routing& routing, const BlockLane& lane);

/// Stays at one address as long as autograd may call it.
class ParallelExperts {
 public:
  /// `up` and `down` are of this rank's experts.
  ParallelExperts(const GroupedLinear& up, const GroupedLinear& down, Activation activation, double capacity)
      : up_(&up), down_(&down), activation_(activation), capacity_(capacity) {}
  ParallelExperts(const ParallelExperts&) = delete;
  ParallelExperts& operator=(const ParallelExperts&) = delete;
  void share(const BlockLane* lane) { lane_ = lane; }

  /// What a pass left to its repetition, or, if it `leaves` it, leaves: of the first round before the activation, and
  /// what all rounds gave.
  struct Values {
    at::Tensor raised, lowered;
    bool leaves = false;
  };
  /// x (N, C) compute type → (R, C): what the experts of its rows give, grouped by expert. Values that are known are
  /// taken. For backward the first round is saved; what further ones had goes to the experts again. Collective over the
  /// ranks that share them.
  at::Tensor operator()(const at::Tensor& x, const Routing& routing, const at::Tensor& table, Values& values) const;

 private:
  friend struct ParallelExpertsFunction;
  at::Tensor to_experts(const at::Tensor& rows, const ExpertWays::Round& round) const;
  /// To `rows`, of which these are a part.
  void from_experts(const at::Tensor& grouped, const ExpertWays::Round& round, const at::Tensor& rows) const;
  ExpertWays ways(const at::Tensor& table) const { return {table, lane_->rank(), capacity_}; }

  const GroupedLinear *up_, *down_;
  Activation activation_;
  double capacity_;
  const BlockLane* lane_ = nullptr;
};

}  // namespace lockstep
