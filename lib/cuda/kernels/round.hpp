// Rounding to the storage type on the device. Contract: tensor/kernels/bias.hpp.
#pragma once

#include "tensor/kernels/bias.hpp"

namespace lockstep::cuda {

template <class T>
void round_to(const Math<T>* x, std::int64_t count, T* y);

}  // namespace lockstep::cuda
