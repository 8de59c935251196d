// Carries out products by cublasLt.
#pragma once

#include "cuda/product.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::cuda {

/// Memory of the device that products take besides their matrices: as NVIDIA advises for Hopper.
constexpr std::size_t product_workspace_bytes = 32 << 20;

/// Whether products of fp32 factors may round them to TF32. Call it before the first product.
void allow_tf32(bool allowed);

/// Queues a product in the compute queue, by the algorithm of use_algorithm or else the first one that cublasLt
/// proposes. Call it, and the functions below, from one thread at a time. Throws Error(resources), and Error(input) if
/// cublasLt does not propose the algorithm.
void multiply(const Product& product);

// As in DeviceProducts (device/device_products.hpp), with products as texts of cuda/product.hpp.
std::string cublaslt_version();  // "cublasLt 13.1.0"
std::vector<std::string> computed_products();
int fastest_algorithm(const std::string& product);
void use_algorithm(const std::string& product, int proposal);

/// Releases the workspace and the descriptions of products. Throws nothing.
void release_products() noexcept;

}  // namespace lockstep::cuda
