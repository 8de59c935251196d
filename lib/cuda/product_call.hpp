// Carries out products by cublasLt.
#pragma once

#include "cuda/product.hpp"

#include <cstddef>

namespace lockstep::cuda {

/// Memory of the device that products take besides their matrices: as NVIDIA advises for Hopper.
constexpr std::size_t product_workspace_bytes = 32 << 20;

/// Whether products of fp32 factors may round them to TF32. Call it before the first product.
void allow_tf32(bool allowed);

/// Queues a product in the compute queue. A shape that comes for the first time gets the first algorithm that cublasLt
/// proposes. Call it from one thread at a time. Throws Error(resources).
void multiply(const Product& product);

/// Releases the workspace and the descriptions of products. Throws nothing.
void release_products() noexcept;

}  // namespace lockstep::cuda
