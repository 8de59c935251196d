// Experts: a router chooses for each token the MLPs that it goes to, its row is copied to each of them, and what they
// give is added up with the router's weights (Shazeer et al., "Outrageously Large Neural Networks", 2017). No row is
// dropped. Soft-max, weights and sums over experts have the type that is accumulated in: fp32, or fp64 in fp64.
#pragma once

#include "tensor/functions/linear.hpp"
#include "tensor/kernels/routing_kernel.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// Where tokens go.
struct Routing {
  RoutingShape shape;
  at::Tensor weights;  // (N, k) fp32 or fp64; autograd differentiates them
  at::Tensor chosen;   // (N, k) int32: experts, ascending
  at::Tensor places;   // (N, k) int32: their rows, grouped by expert
  at::Tensor offsets;  // (E + 1) int64 in host memory: the first row of each expert, then N·k
};

/// Stays at one address as long as autograd may call it.
class Router {
 public:
  /// weight (E, C).
  Router(Parameter& weight, std::int64_t per_token, bool normalised);
  Router(const Router&) = delete;
  Router& operator=(const Router&) = delete;

  /// For x (N, C) compute type. `chosen` (N, k) int32 says where tokens go, as in an earlier pass; undefined: the
  /// router chooses.
  Routing operator()(const at::Tensor& x, const at::Tensor& chosen = {}) const;

  // The plain functions behind it; no autograd.
  struct Output {
    at::Tensor weights, probabilities;  // (N, k), (N, E)
  };
  Output forward(const at::Tensor& x, Choose choose, const at::Tensor& chosen) const;
  RoutingShape shape(std::int64_t tokens) const { return {tokens, linear_.out(), per_token_, normalised_}; }
  const Linear& linear() const { return linear_; }

 private:
  Parameter* weight_;
  Linear linear_;
  std::int64_t per_token_;
  bool normalised_;
};

/// x (N, C) compute type → (N·k, C): a row for each expert of each token, grouped by expert.
at::Tensor dispatch(const at::Tensor& x, const Routing& routing);
/// residual (N, C) stream type + what the experts of each token gave, rows (N·k, C) compute type, by their weights →
/// (N, C) stream type.
at::Tensor combine(const at::Tensor& residual, const at::Tensor& rows, const Routing& routing);

/// A linear layer of each expert; their weights are stacked, (E·out, in). Stays at one address as long as autograd may
/// call it.
class GroupedLinear {
 public:
  GroupedLinear(Parameter& weight, std::int64_t experts);
  GroupedLinear(const GroupedLinear&) = delete;
  GroupedLinear& operator=(const GroupedLinear&) = delete;

  /// x (rows, in) compute type → (rows, out) compute type, with the weight of each row's expert; offsets as in Routing.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& offsets) const;

  // The plain functions behind it; no autograd.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& offsets) const;
  at::Tensor backward_input(const at::Tensor& dy, const at::Tensor& offsets) const;
  void backward_weight(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& offsets) const;

 private:
  Parameter* weight_;
  std::int64_t experts_, in_, out_;
};

}  // namespace lockstep
