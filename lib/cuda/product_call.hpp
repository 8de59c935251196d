// Carries out products by cublasLt.
#pragma once

#include "cuda/product.hpp"

namespace lockstep::cuda {

/// Queues a product in the compute queue. A shape that comes for the first time gets the first algorithm that cublasLt
/// proposes. Call it from one thread at a time. Throws Error(resources).
void multiply(const Product& product);

/// Releases what products keep. Throws nothing.
void release_products() noexcept;

}  // namespace lockstep::cuda
