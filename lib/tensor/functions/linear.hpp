// Linear layers whose weights are Parameters: read when used, gradients added to their unit during backward.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/dropout.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// How a weight is stored: Hugging Face's (out, in), or (in, out) as GPT-2's Conv1D. Never copied or transposed.
enum class WeightLayout { out_in, in_out };

/// One or several weights applied to the same input, their outputs side by side: y = [x·W0 + b0, x·W1 + b1, …]. Weights
/// without biases that lie next to each other in their unit are multiplied at once. Stays at one address as long as
/// autograd may call it.
class Linear {
 public:
  /// `biases` has one entry a weight; null: none.
  Linear(std::vector<Parameter*> weights, std::vector<Parameter*> biases, WeightLayout layout);
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  /// Ranks share the layer: weights are parts, cut by their outputs, where the input's gradient is summed over the
  /// ranks, or by their inputs, where the output is. A bias of the latter is whole. Where ranks share rows too, the
  /// input of the former and the output of the latter, with its residual, are this rank's rows.
  enum class CutBy { outputs, inputs };
  void share(const BlockLane* lane, CutBy cut);

  // An output that is `known` is taken, and neither computed nor summed over ranks.
  /// x (N, in) compute type → (N, out) compute type, for N `rows`.
  at::Tensor operator()(const at::Tensor& x, std::int64_t rows, const at::Tensor& known = {}) const;
  /// residual (N, out) stream type + what `dropout` leaves of x·W + b → (N, out) stream type. For a single weight.
  at::Tensor add_linear(const at::Tensor& residual, const at::Tensor& x, const Dropout& dropout = {},
                        const at::Tensor& known = {}) const;

  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }

  // The plain functions behind them; no autograd. With ranks that share the layer the sums over these are in them.
  /// All rows of an input, or of the gradient of an output: where ranks share rows these give them to each other.
  at::Tensor whole_input(const at::Tensor& x, std::int64_t rows) const;
  at::Tensor whole_gradient(const at::Tensor& dy, std::int64_t rows) const;
  at::Tensor forward(const at::Tensor& x) const;  // of all rows
  at::Tensor forward_add(const at::Tensor& residual, const at::Tensor& x, const Dropout& dropout) const;
  at::Tensor backward_input(const at::Tensor& dy) const;  // dy (N, out) compute type → (N, in) compute type
  void backward_weight(const at::Tensor& x, const at::Tensor& dy) const;
  void backward_bias(const at::Tensor& dy) const;  // dy compute or stream type

 private:
  struct Part {  // weights that are multiplied at once
    std::vector<Parameter*> weights;
    Parameter* bias = nullptr;             // only of a single weight
    std::int64_t offset = 0, columns = 0;  // of the output
  };
  at::Tensor own_backward_input(const at::Tensor& dy) const;
  std::vector<Parameter*> biases_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> widths_;  // of each weight's output
  WeightLayout layout_;
  std::int64_t in_ = 0, out_ = 0;
  const BlockLane* sums_output_ = nullptr;          // among the ranks whose outputs add up
  const BlockLane* sums_input_gradient_ = nullptr;  // or whose gradients of the input do
};

}  // namespace lockstep
