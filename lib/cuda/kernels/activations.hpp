// Activation functions on the device. Contracts: tensor/kernels/activation_kernel.hpp.
#pragma once

#include "tensor/kernels/activation_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void activation_forward(Activation activation, const T* u, const T* bias, std::int64_t rows, std::int64_t columns,
                        T* y);
template <class T>
void activation_backward(Activation activation, const T* dy, const T* u, const T* bias, std::int64_t rows,
                         std::int64_t columns, T* du);
template <class T>
void gated_forward(Activation activation, const T* gate_up, const T* row_gates, std::int64_t rows, std::int64_t columns,
                   T* y);
template <class T>
void gated_backward(Activation activation, const T* dy, const T* gate_up, const T* row_gates, std::int64_t rows,
                    std::int64_t columns, T* dgate_up, T* drow_gates);

}  // namespace lockstep::cuda
