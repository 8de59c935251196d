// Muon's orthogonalisation on a GPU: products of the kernel table, and kernels between them. Contract:
// tensor/kernels/orthogonalise_kernel.hpp.
#pragma once

#include "tensor/kernels/orthogonalise_kernel.hpp"

#include <cstdint>

namespace lockstep::cuda {

/// Takes the memory of the iterations from LibTorch's allocator, and releases it when all is queued.
template <class M>
void orthogonalise(M* matrix, std::int64_t rows, std::int64_t cols, std::int64_t steps, IterationType type);

}  // namespace lockstep::cuda
