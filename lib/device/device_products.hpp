// Algorithms for the matrix products of a device. Its library proposes several for a product, and the fastest one is
// known only by time: train/product_search.hpp. Products are texts here, whose form belongs to the plug-in.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The versions on which proposals depend, besides the name of the device.
struct ProductVersions {
  std::string driver;   // "CUDA 13.0": the newest one that it runs
  std::string library;  // "cublasLt 13.1.0"
  bool operator==(const ProductVersions&) const = default;
};

/// DeviceProducts knows the products of the open device. Proposals are counted from 0, in the library's order. Calls
/// are made from the thread that computes, between steps.
class DeviceProducts {
 public:
  static constexpr int proposals = 8;  // the first ones, among which one is chosen

  virtual ~DeviceProducts() = default;
  virtual ProductVersions versions() = 0;
  /// Returns the products that this process has computed, each once. Products with equal texts have equal proposals.
  virtual std::vector<std::string> computed() = 0;
  /// Times the proposals for a product on matrices of its own, and returns the number of the fastest one; of two equal
  /// ones the first. Waits for the device. Throws Error(resources), c10::OutOfMemoryError, and Error(input) for a text
  /// that is no product.
  virtual int fastest(const std::string& product) = 0;
  /// From now on the product is computed by this proposal; a product without a choice by the first one. Throws
  /// Error(input) for a text that is no product.
  virtual void use(const std::string& product, int proposal) = 0;
};

}  // namespace lockstep
