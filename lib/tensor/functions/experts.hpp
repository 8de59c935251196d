// Experts: a router chooses for each token the MLPs that it goes to, its row is copied to each of them, and what they
// give is added up with the router's weights (Shazeer et al., "Outrageously Large Neural Networks", 2017). No row is
// dropped. Soft-max, weights and sums over experts have the type that is accumulated in: fp32, or fp64 in fp64.
#pragma once

#include "tensor/functions/linear.hpp"
#include "tensor/kernels/routing_kernel.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// The samples whose rows are routed. In a training step choices of their tokens are counted, and each is to spread its
/// tokens evenly.
struct RoutedSamples {
  at::Tensor of_rows;       // (N) int32: of each row, −1: none, it is padding; undefined: there is no padding
  bool counted = false;     // choices
  std::int64_t count = 0;   // B
  std::int64_t tokens = 0;  // T of each, over all ranks that have rows of it
  const BlockLane* sharers = nullptr;  // these; null: this rank alone
  std::optional<double> scale = {};    // times which the auxiliary loss is differentiated; absent: there is none
};

/// Where tokens go.
struct Routing {
  RoutingShape shape;
  at::Tensor weights;                // (N, k) fp32 or fp64; autograd differentiates them
  at::Tensor chosen;                 // (N, k) int32: experts, ascending
  at::Tensor places;                 // (N, k) int32: their rows, grouped by expert; −1: none, of padding
  at::Tensor offsets;                // (E + 1) int64 in host memory: the first row of each expert, then R, of all
  std::vector<double> choices = {};  // (E): of this rank's tokens; empty where nothing is counted
  double aux_loss = 0;               // added up over the samples, those of other ranks' rows too
  std::int64_t rows() const { return offsets.const_data_ptr<std::int64_t>()[offsets.numel() - 1]; }  // R ≤ N·k
};

/// Stays at one address as long as autograd may call it.
class Router {
 public:
  /// weight (E, C).
  Router(Parameter& weight, std::int64_t per_token, bool normalised);
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// For x (N, C) compute type. `chosen` (N, k) int32 says where tokens go, as in an earlier pass; undefined: the
  /// router chooses. The gradient of the auxiliary loss goes into x and the router's weight with that of the weights.
  /// With such a loss Collective over the ranks that share samples.
  Routing operator()(const at::Tensor& x, const at::Tensor& chosen = {}, const RoutedSamples& samples = {}) const;

  // The plain functions behind it; no autograd.
  struct Output {
    at::Tensor weights, probabilities;  // (N, k), (N, E)
  };
  Output forward(const at::Tensor& x, Choose choose, const at::Tensor& chosen) const;
  struct Balance {
    double loss = 0;
    at::Tensor slopes;  // (B, E): AuxSlopes
  };
  Balance balance(const at::Tensor& probabilities, const at::Tensor& chosen, const RoutedSamples& samples) const;
  RoutingShape shape(std::int64_t tokens) const { return {tokens, linear_.out(), per_token_, normalised_}; }
  const Linear& linear() const { return linear_; }

 private:
  Parameter* weight_;
  Linear linear_;
  std::int64_t per_token_;
  bool normalised_;
};

/// x (N, C) compute type → (R, C): a row for each expert of each token, grouped by expert.
at::Tensor dispatch(const at::Tensor& x, const Routing& routing);
// The plain functions behind it; no autograd. `rows` is R.
at::Tensor dispatched(const at::Tensor& x, const at::Tensor& places, const RoutingShape& shape, std::int64_t rows);
at::Tensor dispatched_backward(const at::Tensor& drows, const at::Tensor& places, const RoutingShape& shape);
/// residual (N, C) stream type + what the experts of each token gave, rows (R, C) compute type, by their weights,
/// less what is dropped of that → (N, C) stream type. A sum that is `known` is taken.
at::Tensor combine(const at::Tensor& residual, const at::Tensor& rows, const Routing& routing,
                   const Dropout& dropout = {}, const at::Tensor& known = {});

/// A linear layer of each expert; their weights are stacked, (E·out, in). Stays at one address as long as autograd may
/// call it.
class GroupedLinear {
 public:
  GroupedLinear(Parameter& weight, std::int64_t experts);
  GroupedLinear(const GroupedLinear&) = delete;
  GroupedLinear& operator=(const GroupedLinear&) = delete;

  /// x (rows, in) compute type → (rows, out) compute type, with the weight of each row's expert; offsets as in Routing.
  /// An output that is `known` is taken instead of computing it.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& offsets, const at::Tensor& known = {}) const;

  // The plain functions behind it; no autograd.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& offsets) const;
  at::Tensor backward_input(const at::Tensor& dy, const at::Tensor& offsets) const;
  void backward_weight(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& offsets) const;

 private:
  Parameter* weight_;
  std::int64_t experts_, in_, out_;
};

}  // namespace lockstep
