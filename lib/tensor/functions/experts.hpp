// Mixture of experts: a router chooses experts (MLPs) for each token, the token's row is copied to each of them, and
// their outputs are summed with the router's weights (Shazeer et al., "Outrageously Large Neural Networks", 2017). No
// token is dropped. Softmax, weights and sums over experts use the accumulation type: fp32, or fp64 in fp64. Expert
// parallelism: tensor/functions/parallel_experts.hpp.
#pragma once

#include "tensor/functions/linear.hpp"
#include "tensor/kernels/routing_kernel.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// The samples of the routed rows. A training step counts the choices of their tokens, and the auxiliary loss asks each
/// sample to spread its tokens evenly.
struct RoutedSamples {
  // (N) int32: the sample of each row; −1: padding. Undefined: there is no padding.
  at::Tensor of_rows;
  std::int64_t routed = -1;            // number of rows that are no padding; −1: all
  bool counted = false;                // choices are counted
  std::int64_t count = 0;              // B
  std::int64_t tokens = 0;             // T of each, over all ranks that hold its rows
  const BlockLane* sharers = nullptr;  // the ranks that hold rows of them; nullptr: only this rank
  // Factor of the auxiliary loss when it is differentiated. Not set: there is no such loss.
  std::optional<double> scale = {};
};

/// The routing of a batch: chosen experts and rows of each token.
struct Routing {
  RoutingShape shape;
  at::Tensor weights;        // (N, k) fp32 or fp64; differentiable
  at::Tensor chosen;         // (N, k) int32: experts, ascending
  at::Tensor places;         // (N, k) int32: the token's rows, grouped by expert; −1: padding
  at::Tensor offsets;        // (E + 1) int64: the first row of each expert, then R, their total
  std::int64_t rows = 0;     // R ≤ N·k
  at::Tensor choices = {};   // (E) fp64: choices of this rank's tokens; undefined unless counted
  at::Tensor aux_loss = {};  // () fp64: sum over the samples, including rows of other ranks; undefined: none
};

/// Stays at one address as long as autograd may call it.
class Router {
 public:
  /// weight (E, C).
  Router(Parameter& weight, std::int64_t per_token, bool normalised);
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// Routes x (N, C) compute type. `chosen` (N, k) int32 repeats the choices of an earlier pass; undefined: the router
  /// chooses. Backward adds the gradient of the auxiliary loss to the gradients of x and of the router's weight. Local
  /// without an auxiliary loss; with one, Collective over the ranks that share samples.
  Routing operator()(const at::Tensor& x, const at::Tensor& chosen = {}, const RoutedSamples& samples = {}) const;

  // The plain functions without autograd.
  struct Output {
    at::Tensor weights, probabilities;  // (N, k), (N, E)
  };
  Output forward(const at::Tensor& x, Choose choose, const at::Tensor& chosen) const;
  struct Balance {
    at::Tensor loss;    // () fp64
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
// The plain functions without autograd. `rows` is R.
at::Tensor dispatched(const at::Tensor& x, const at::Tensor& places, const RoutingShape& shape, std::int64_t rows);
at::Tensor dispatched_backward(const at::Tensor& drows, const at::Tensor& places, const RoutingShape& shape);
/// residual (N, C) stream type + dropout(Σ of the experts' outputs, rows (R, C) compute type, times the router's
/// weights) → (N, C) stream type. A defined `known` result is returned instead of computing it.
at::Tensor combine(const at::Tensor& residual, const at::Tensor& rows, const Routing& routing,
                   const Dropout& dropout = {}, const at::Tensor& known = {});

/// A linear layer for each expert; the weights are stacked, (E·out, in). Stays at one address as long as autograd may
/// call it.
class GroupedLinear {
 public:
  GroupedLinear(Parameter& weight, std::int64_t experts);
  GroupedLinear(const GroupedLinear&) = delete;
  GroupedLinear& operator=(const GroupedLinear&) = delete;

  /// x (rows, in) compute type → (rows, out) compute type, with the weight of each row's expert; offsets as in Routing.
  /// A defined `known` result is returned instead of computing it.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& offsets, const at::Tensor& known = {}) const;

  std::int64_t out() const { return out_; }

  // The plain functions without autograd.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& offsets) const;
  at::Tensor backward_input(const at::Tensor& dy, const at::Tensor& offsets) const;
  void backward_weight(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& offsets) const;

 private:
  Parameter* weight_;
  std::int64_t experts_, in_, out_;
};

}  // namespace lockstep
