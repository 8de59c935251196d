// Activation functions of feed-forward layers, alone or as the gate of another value (SwiGLU and its kin): plain
// forward and backward.
#pragma once

#include "architecture/model_config.hpp"
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

/// y (rows, columns) = act(gate) · up; each row of gate_up (rows, 2·columns) holds gate, then up. With row_gates (rows)
/// each row is also multiplied by σ(its row gate); nullptr: not.
template <class T>
void gated_forward(Activation activation, const T* gate_up, const T* row_gates, std::int64_t rows, std::int64_t columns,
                   T* y);
/// dgate_up (rows, 2·columns) and, if there are row_gates, drow_gates (rows).
template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate_up, const T* row_gates, std::int64_t rows,
                    std::int64_t columns, T* dgate_up, T* drow_gates);

}  // namespace lockstep
