// Activation functions between the linear layers of a feed-forward network, for autograd. The kernels:
// tensor/kernels/activation_kernel.hpp.
#pragma once

#include "architecture/model_config.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// act(u + bias) for u (N, F) compute type → (N, F); `bias` nullptr: none. Adding the bias here needs no extra pass
/// over memory.
at::Tensor activate(const at::Tensor& u, Activation activation, Parameter* bias);

/// act(gate) · up for gate_up (N, 2F) = [gate, up] compute type → (N, F). With row_gates (N, 1) compute type each row
/// is also multiplied by σ(its row gate).
at::Tensor activate_gated(const at::Tensor& gate_up, Activation activation, const at::Tensor& row_gates = {});
// The plain functions without autograd. The gradient of row gates goes to `drow_gates`.
at::Tensor gated(const at::Tensor& gate_up, Activation activation, const at::Tensor& row_gates = {});
at::Tensor gated_backward(const at::Tensor& gate_up, const at::Tensor& dy, Activation activation,
                          const at::Tensor& row_gates = {}, const at::Tensor& drow_gates = {});

}  // namespace lockstep
