// Activations of feed-forward layers, alone or as the gate of another value: plain forward and backward.
#pragma once

#include "exchange/hf_config.hpp"
#include "tensor/kernels/number.hpp"

namespace lockstep {

/// y = act(u + bias) for u (rows, columns); bias (columns) or nullptr.
template <class T>
void activation_forward(Activation activation, const T* u, const T* bias, std::int64_t rows, std::int64_t columns,
                        T* y);
/// du = dy · act'(u + bias).
template <class T>
void activation_backward(Activation activation, const T* dy, const T* u, const T* bias, std::int64_t rows,
                         std::int64_t columns, T* du);

/// y (rows, columns) = act(gate) · up, where each row of gate_up (rows, 2·columns) holds gate, then up; times σ of the
/// row's own gate, one of row_gates (rows), or nullptr.
template <class T>
void gated_forward(Activation activation, const T* gate_up, const T* row_gates, std::int64_t rows, std::int64_t columns,
                   T* y);
/// drow_gates (rows) where there are row_gates.
template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate_up, const T* row_gates, std::int64_t rows,
                    std::int64_t columns, T* dgate_up, T* drow_gates);

}  // namespace lockstep
