// Dropout at one site of a block in a step. The functions with a site take it as an argument: add_linear, embed,
// causal_attention. The formula of masks: tensor/kernels/dropout_kernel.hpp.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/kernels/dropout_kernel.hpp"

#include <ATen/core/Tensor.h>

namespace torch::autograd {
struct AutogradContext;
}

namespace lockstep {

struct Dropout {
  DropoutMask mask;   // default: drops nothing
  at::Tensor places;  // (N) int64, a Place for each token
};

/// The dropout of this rank's rows, if the ranks of `lane` share rows (sequence parallelism); nullptr: this rank has
/// all rows.
Dropout of_own_rows(const Dropout& dropout, const BlockLane* lane);

/// Stores the dropout of a function for its backward, and gets it back there.
void keep(torch::autograd::AutogradContext* context, const Dropout& dropout);
Dropout kept_dropout(torch::autograd::AutogradContext* context);

/// Applies dropout to x (N, C), without autograd. `type` is the result's type: that of x, or a 16-bit type if x is
/// fp32.
at::Tensor dropped(const Dropout& dropout, const at::Tensor& x, at::ScalarType type);

}  // namespace lockstep
