// RMS norms of the heads of queries and keys (QK-norm); their weights are Parameters. Norms of the residual stream:
// tensor/functions/norm.hpp.
#pragma once

#include "tensor/kernels/attention_kernel.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// Stays at one address as long as autograd may call it.
class HeadNorm {
 public:
  HeadNorm(const AttentionShape& shape, double eps, Parameter& query_weight, Parameter& key_weight)
      : shape_(shape), eps_(eps), query_weight_(&query_weight), key_weight_(&key_weight) {}
  HeadNorm(const HeadNorm&) = delete;
  HeadNorm& operator=(const HeadNorm&) = delete;

  /// qkv (N, (H + 2·KV)·D) compute type → the same shape and type, with queries and keys normalised.
  at::Tensor operator()(const at::Tensor& qkv) const;

  const AttentionShape& shape() const { return shape_; }

  // The plain functions without autograd.
  at::Tensor forward(const at::Tensor& qkv, at::Tensor& rstd) const;
  /// Returns the gradient of qkv, and adds those of the weights.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& qkv, const at::Tensor& rstd) const;

 private:
  AttentionShape shape_;
  double eps_;
  Parameter* query_weight_;
  Parameter* key_weight_;
};

}  // namespace lockstep
