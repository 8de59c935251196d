// Embedding lookup and its gradient on the device. Contracts: tensor/kernels/embedding_kernel.hpp.
#pragma once

#include "tensor/kernels/embedding_kernel.hpp"

namespace lockstep::cuda {

void indices_of_part(const std::int32_t* indices, std::int64_t count, std::int32_t first, std::int32_t entries,
                     std::int32_t* own);
template <class T>
void embedding_forward(const T* table, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                       StoreMode mode, Math<T>* y);
template <class M>
void embedding_backward(const M* dy, const std::int32_t* indices, std::int64_t rows, std::int64_t channels,
                        std::int64_t entries, double beta, M* dtable);

}  // namespace lockstep::cuda
