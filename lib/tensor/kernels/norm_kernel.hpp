// LayerNorm and RMSNorm over rows of C values: plain forward and backward. x is in the math type (the residual stream),
// y in T.
#pragma once

#include "tensor/kernels/number.hpp"

namespace lockstep {

/// y = (x − mean)·rstd·weight + bias for each of `rows` rows of `channels`; bias may be nullptr. Stores mean and rstd
/// (rows).
template <class T>
void layer_norm_forward(const Math<T>* x, const T* weight, const T* bias, double eps, std::int64_t rows,
                        std::int64_t channels, T* y, Math<T>* mean, Math<T>* rstd);

/// dx = residual + ∂/∂x; `residual` may be nullptr. dweight and dbias (nullptr: none) become contribution + β·(their
/// old values).
template <class T>
void layer_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* mean, const Math<T>* rstd,
                         const Math<T>* residual, std::int64_t rows, std::int64_t channels, Math<T>* dx,
                         Math<T>* dweight, double weight_beta, Math<T>* dbias, double bias_beta);

/// y = x·rstd·weight with rstd = 1 / √(mean(x²) + eps). Stores rstd (rows).
template <class T>
void rms_norm_forward(const Math<T>* x, const T* weight, double eps, std::int64_t rows, std::int64_t channels, T* y,
                      Math<T>* rstd);

template <class T>
void rms_norm_backward(const T* dy, const Math<T>* x, const T* weight, const Math<T>* rstd, const Math<T>* residual,
                       std::int64_t rows, std::int64_t channels, Math<T>* dx, Math<T>* dweight, double weight_beta);

}  // namespace lockstep
