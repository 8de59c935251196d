// Backward split in two, for zero-bubble pipelines. Backward-input (B) computes the gradient of a block's input and
// finishes norms, biases and embeddings. Backward-weight (W), at any later time, computes the weight gradients of
// linear layers from the inputs and output gradients that B kept; it reads no weights. The contract of blocks:
// model/block.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

/// Adds the product of a linear layer's input and output gradient to its weight gradients.
using WeightProduct = std::function<void(const at::Tensor& x, const at::Tensor& dy)>;

/// Work left by a backward-input: x and dy of each linear layer, nothing else. It is a value; the scheduler keeps it
/// until W runs.
class DeferredWeightGradients {
 public:
  /// Computes the products in the order of a normal backward. B followed by W therefore gives the bits of backward,
  /// unless another contribution comes in between (as the embedding's does for a tied weight). Each x and dy is
  /// released right after its use. A second call does nothing.
  void compute();
  /// Bytes of memory that x and dy keep alive.
  std::int64_t bytes() const;
  bool empty() const { return products_.empty(); }

 private:
  friend DeferredWeightGradients backward_input(const at::Tensor& output, const at::Tensor& gradient);
  friend void add_weight_gradient(const at::Tensor& x, const at::Tensor& dy, WeightProduct product);
  struct Product {
    at::Tensor x, dy;
    WeightProduct add;
  };
  std::vector<Product> products_;
};

/// Runs torch::autograd::backward({output}, {gradient}), except for the weight gradients of linear layers. Autograd's
/// saved tensors are released. Local.
DeferredWeightGradients backward_input(const at::Tensor& output, const at::Tensor& gradient);

/// Called in the backward of layers: runs product(x, dy) now, or later if called within backward_input. `product` reads
/// no weights.
void add_weight_gradient(const at::Tensor& x, const at::Tensor& dy, WeightProduct product);
/// True within backward_input.
bool defers_weight_gradients();

}  // namespace lockstep
