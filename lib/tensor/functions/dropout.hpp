// What a site of a block drops in a step. The functions that have a site take it: add_linear, embed, causal_attention.
// The formula of masks: tensor/kernels/dropout_kernel.hpp.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/kernels/dropout_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct AutogradContext;
}

namespace lockstep {

struct Dropout {
  DropoutMask mask;   // by default nothing is dropped
  at::Tensor places;  // (N) int64, a Place for each token
};

/// The same for the rows of this rank, where those of `lane` share rows; null: it has all.
Dropout of_own_rows(const Dropout& dropout, const BlockLane* lane);

/// For the backward of a function that has a site.
void keep(torch::autograd::AutogradContext* context, const Dropout& dropout);
Dropout kept_dropout(torch::autograd::AutogradContext* context);

/// What is left of x (N, C) in `type`, that of x or one that is computed in it; no autograd.
at::Tensor dropped(const Dropout& dropout, const at::Tensor& x, at::ScalarType type);

}  // namespace lockstep
