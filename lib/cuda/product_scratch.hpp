// Memory for a product that is carried out only to be timed: nothing of the run is read or written.
#pragma once

#include "cuda/product.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::cuda {

/// ProductScratch holds drawn factors, and all else that a product of this shape reads or writes, at addresses of the
/// same alignment. Throws Error(resources), c10::OutOfMemoryError.
class ProductScratch {
 public:
  explicit ProductScratch(const ColumnProduct& shape);
  const Product& product() const { return product_; }

 private:
  void* memory(std::size_t bytes, std::size_t alignment);
  void* matrix(const ColumnMatrix& of);
  void* filled(const ColumnMatrix& of);

  std::vector<std::shared_ptr<void>> blocks_;
  Product product_;
};

}  // namespace lockstep::cuda
