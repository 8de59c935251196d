// LayerNorm and RMSNorm on the device. Contracts: tensor/kernels/norm_kernel.hpp.
#pragma once

#include "tensor/kernels/norm_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void layer_norm_forward(const Math<T>* x, const T* weight, const T* bias, double eps, std::int64_t rows,
                        std::int64_t channels, T* y, Math<T>* mean, Math<T>* rstd);
template <class T>
void layer_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* mean, const Math<T>* rstd,
                         const Math<T>* residual, std::int64_t rows, std::int64_t channels, Math<T>* dx,
                         Math<T>* dweight, double weight_beta, Math<T>* dbias, double bias_beta);
template <class T>
void rms_norm_forward(const Math<T>* x, const T* weight, double eps, std::int64_t rows, std::int64_t channels, T* y,
                      Math<T>* rstd);
template <class T>
void rms_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* rstd, const Math<T>* residual,
                       std::int64_t rows, std::int64_t channels, Math<T>* dx, Math<T>* dweight, double weight_beta);

}  // namespace lockstep::cuda
