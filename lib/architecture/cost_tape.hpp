// Plays calls of functions by their descriptions (architecture/function_costs.hpp), and counts the memory of their
// tensors as LibTorch's reference counts and autograd free it. Pure. The calls of a block:
// architecture/block_profile.cpp.
#pragma once

#include "architecture/function_costs.hpp"
#include "program/block_exchange.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace lockstep {

/// Bytes that are live while tensors come and go.
class LiveBytes {
 public:
  void add(std::int64_t bytes) { most_ = std::max(most_, now_ += bytes); }
  void drop(std::int64_t bytes) { now_ -= bytes; }
  void play(const MemorySteps& steps) {
    for (const std::int64_t step : steps) add(step);
  }
  std::int64_t now() const { return now_; }
  std::int64_t most() const { return most_; }
  void forget_most() { most_ = now_; }

 private:
  std::int64_t now_ = 0, most_ = 0;
};

/// A tensor, as its bytes. It is live until its last owner lets go of it.
struct CountedTensor {
  int id = -1;
  std::shared_ptr<const std::int64_t> memory;  // its bytes
  explicit operator bool() const { return memory != nullptr; }
};

/// Plays calls forward and, as autograd does, backward.
class CostTape {
 public:
  enum class Autograd { on, off };
  explicit CostTape(Autograd autograd) : autograd_(autograd) {}

  struct Uses {
    std::vector<CountedTensor> arguments = {};  // that have gradients
    std::vector<CountedTensor> saved = {};      // read by backward
    CountedTensor residual = {};                // argument that is added to the result, and has the result's gradient
    CountedTensor known = {};                   // the result, from an earlier pass
  };
  /// Returns the results.
  std::vector<CountedTensor> call(const FunctionCosts& costs, const Uses& uses);
  CountedTensor one(const FunctionCosts& costs, const Uses& uses) { return call(costs, uses).front(); }
  /// Keeps a result of the last call until its backward has run, or until the backward of all has.
  void save(const CountedTensor& result) {
    if (!nodes_.empty()) nodes_.back().saved.push_back(result);
  }
  void hold(const CountedTensor& result) {
    if (records()) held_.push_back(result);
  }
  /// Returns a tensor of memory that is counted elsewhere.
  CountedTensor uncounted() { return owned(0); }
  /// Frees each call's saved tensors after its backward. Leaves the gradients of arguments that no call made.
  void backward(const CountedTensor& output);

  bool records() const { return autograd_ == Autograd::on; }
  LiveBytes& live() { return *live_; }
  BlockExchanges exchanges = {};
  std::vector<MatrixProduct> products = {};
  double forward_flops = 0, backward_flops = 0;  // of products without weights
  std::int64_t deferred_bytes = 0;
  double product_flops() const {
    double sum = 0;
    for (const MatrixProduct& product : products) sum += product.flops();
    return sum;
  }

 private:
  struct Node {
    FunctionCosts costs;
    std::vector<int> arguments;
    std::vector<CountedTensor> saved;
    int residual, result;
  };
  /// A tensor of bytes that are live already.
  CountedTensor owned(std::int64_t bytes) {
    const auto let_go = [live = live_](const std::int64_t* memory) {
      live->drop(*memory);
      delete memory;
    };
    return {next_id_++, std::shared_ptr<const std::int64_t>(new std::int64_t(bytes), let_go)};
  }
  /// Adds a further gradient of a tensor in place.
  void give_gradient(int id, const CountedTensor& gradient) { gradients_.emplace(id, gradient); }
  CountedTensor take_gradient(int id) {
    const auto found = gradients_.extract(id);
    return found ? found.mapped() : CountedTensor();
  }

  Autograd autograd_;
  std::shared_ptr<LiveBytes> live_ = std::make_shared<LiveBytes>();  // tensors may live longer than the tape
  int next_id_ = 0;
  std::vector<Node> nodes_;
  std::vector<CountedTensor> held_;
  std::map<int, CountedTensor> gradients_;
  std::set<int> deferred_;
};

}  // namespace lockstep
