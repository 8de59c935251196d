// LayerNorm and RMSNorm of the residual stream; their weights are Parameters. Norms of query and key heads:
// tensor/functions/head_norm.hpp.
#pragma once

#include "architecture/model_config.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

struct FunctionCosts;

/// Stays at one address as long as autograd may call it.
class Normalisation {
 public:
  /// `bias` nullptr: none.
  Normalisation(Norm kind, double eps, Parameter& weight, Parameter* bias)
      : kind_(kind), eps_(eps), weight_(&weight), bias_(bias) {}
  Normalisation(const Normalisation&) = delete;
  Normalisation& operator=(const Normalisation&) = delete;

  struct Output {
    // x itself. Use it for the branch around the norm, so that both gradients are added in one pass.
    at::Tensor residual;
    at::Tensor normalised;  // (N, C) compute type
  };
  /// x (N, C) stream type.
  Output operator()(const at::Tensor& x) const;

  FunctionCosts costs(const at::Tensor& x) const;

  // The plain functions without autograd.
  struct Saved {
    at::Tensor mean, rstd;  // (N); mean undefined for RMSNorm
  };
  at::Tensor forward(const at::Tensor& x, Saved& saved) const;
  /// Returns the gradient of x, plus residual (N, C) unless undefined, and adds the gradients of weight and bias.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& residual, const at::Tensor& x, const Saved& saved) const;

 private:
  Norm kind_;
  double eps_;
  Parameter* weight_;
  Parameter* bias_;
};

}  // namespace lockstep
