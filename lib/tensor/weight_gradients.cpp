#include "tensor/weight_gradients.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <utility>

namespace lockstep {

namespace {

// Autograd differentiates functions of the CPU on the thread that asks for it.
thread_local DeferredWeightGradients* deferred_to = nullptr;

class Deferral {
 public:
  explicit Deferral(DeferredWeightGradients& to) : outer_(std::exchange(deferred_to, &to)) {}
  ~Deferral() { deferred_to = outer_; }
  Deferral(const Deferral&) = delete;
  Deferral& operator=(const Deferral&) = delete;

 private:
  DeferredWeightGradients* outer_;
};

}  // namespace

void DeferredWeightGradients::compute() {
  for (Product& next : std::exchange(products_, {})) {
    const Product product = std::move(next);
    product.add(product.x, product.dy);
  }
}

std::int64_t DeferredWeightGradients::bytes() const {
  std::set<const void*> counted;
  std::int64_t sum = 0;
  for (const Product& product : products_) {
    for (const at::Tensor& kept : {product.x, product.dy}) {
      const at::Storage& storage = kept.storage();
      if (counted.insert(storage.data()).second) sum += static_cast<std::int64_t>(storage.nbytes());
    }
  }
  return sum;
}

DeferredWeightGradients backward_input(const at::Tensor& output, const at::Tensor& gradient) {
  DeferredWeightGradients left;
  const Deferral deferral(left);
  torch::autograd::backward({output}, {gradient});
  return left;
}

void add_weight_gradient(const at::Tensor& x, const at::Tensor& dy, WeightProduct product) {
  if (deferred_to == nullptr) return product(x, dy);
  // Without the functions that made them, which hold what else they saved.
  deferred_to->products_.push_back({x.detach(), dy.detach(), std::move(product)});
}

bool defers_weight_gradients() { return deferred_to != nullptr; }

}  // namespace lockstep
