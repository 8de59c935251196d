// A backward in two halves, for pipelines that fill their bubbles: backward-input (B) gives the gradient of a block's
// input and finishes norms, biases and embeddings; backward-weight (W), at any later time, multiplies out the gradients
// of the matrices of linear layers, from the input and the output gradient that B kept of each. W reads no weight.
// What blocks promise of it: model/block.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

/// Adds the product of a linear layer's input and output gradient to the gradients of its weights.
using WeightProduct = std::function<void(const at::Tensor& x, const at::Tensor& dy)>;

/// What a backward-input left to be done: x and dy of each linear layer, and nothing else. A value: whoever schedules
/// W keeps it until then.
class DeferredWeightGradients {
 public:
  /// Multiplies in the order in which backward would have, so that B then W gives the bits of backward as long as no
  /// other contribution comes between (as the embedding's does to a tied weight). Lets go of each x and dy as soon as
  /// it is used. Nothing to do the second time.
  void compute();
  /// Of the memory that x and dy keep alive.
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

/// Differentiates `output` as torch::autograd::backward({output}, {gradient}) does, but for the weights of linear
/// layers. Local. What autograd saved is gone afterwards.
DeferredWeightGradients backward_input(const at::Tensor& output, const at::Tensor& gradient);

/// For the backward of layers: product(x, dy) now or, within backward_input, later. `product` reads no weight.
void add_weight_gradient(const at::Tensor& x, const at::Tensor& dy, WeightProduct product);
/// True within backward_input.
bool defers_weight_gradients();

}  // namespace lockstep
