// Dropout on the device, with the masks of tensor/kernels/dropout_kernel.hpp, which has the contracts.
#pragma once

#include "tensor/kernels/dropout_kernel.hpp"

namespace lockstep::cuda {

template <class T>
void dropout_add(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns,
                 const Math<T>* base, const T* bias, Math<T>* y);
template <class T>
void dropout(const DropoutMask& mask, const Place* places, std::int64_t rows, std::int64_t columns, const Math<T>* x,
             T* y);

}  // namespace lockstep::cuda
