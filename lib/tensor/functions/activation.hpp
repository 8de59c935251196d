// Activations between the linear layers of a feed-forward network.
#pragma once

#include "exchange/hf_config.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// act(u + bias) for u (N, F) compute type; `bias` null: none. The bias is added here because it costs nothing on the
/// way.
at::Tensor activate(const at::Tensor& u, Activation activation, Parameter* bias);

/// act(gate) · up for gate_up (N, 2F) = [gate, up] compute type → (N, F); times σ of each row's own gate, if there are
/// row_gates (N, 1) compute type.
at::Tensor activate_gated(const at::Tensor& gate_up, Activation activation, const at::Tensor& row_gates = {});
// The plain functions behind it; no autograd. The gradient of row gates goes to `drow_gates`.
at::Tensor gated(const at::Tensor& gate_up, Activation activation, const at::Tensor& row_gates = {});
at::Tensor gated_backward(const at::Tensor& gate_up, const at::Tensor& dy, Activation activation,
                          const at::Tensor& row_gates = {}, const at::Tensor& drow_gates = {});

}  // namespace lockstep
