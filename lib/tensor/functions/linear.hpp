// Linear layers with Parameters as weights: weights are read when used, and backward adds gradients to their unit.
// Tensor parallelism is part of the layer. Grouped layers of experts: tensor/functions/experts.hpp.
#pragma once

#include "tensor/block_lane.hpp"
#include "tensor/functions/dropout.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

struct FunctionCosts;

/// Storage of a weight: Hugging Face's (out, in), or (in, out) as in GPT-2's Conv1D. Weights are never copied or
/// transposed.
enum class WeightLayout { out_in, in_out };

/// One or several weights applied to the same input, with their outputs side by side: y = [x·W0 + b0, x·W1 + b1, …].
/// Weights without biases that are adjacent in their unit are multiplied in one product. Stays at one address as long
/// as autograd may call it.
class Linear {
 public:
  /// `biases` has one entry per weight; nullptr: no bias.
  Linear(std::vector<Parameter*> weights, std::vector<Parameter*> biases, WeightLayout layout);
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  /// Makes the layer tensor-parallel. Column-parallel weights are cut by their outputs, and the input's gradient is
  /// summed over the ranks. Row-parallel weights are cut by their inputs, and the output is summed; their bias is not
  /// cut. With sequence parallelism the column-parallel input and the row-parallel output, with its residual, are this
  /// rank's rows.
  enum class CutBy { outputs, inputs };
  void share(const BlockLane* lane, CutBy cut);

  // A defined `known` output is returned; it is neither computed nor summed over ranks.
  /// x (N, in) compute type → (N, out) compute type, for N `rows`.
  at::Tensor operator()(const at::Tensor& x, std::int64_t rows, const at::Tensor& known = {}) const;
  /// residual (N, out) stream type + dropout(x·W + b) → (N, out) stream type. For a single weight.
  at::Tensor add_linear(const at::Tensor& residual, const at::Tensor& x, const Dropout& dropout = {},
                        const at::Tensor& known = {}) const;

  // Costs of these calls.
  FunctionCosts costs(const at::Tensor& x, std::int64_t rows) const;
  FunctionCosts add_costs(const at::Tensor& x, const Dropout& dropout) const;

  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }

  // The plain functions without autograd. In a tensor-parallel layer they include the sums over its ranks.
  /// Gathers all rows of an input, or of the gradient of an output, if the ranks share rows.
  at::Tensor whole_input(const at::Tensor& x, std::int64_t rows) const;
  at::Tensor whole_gradient(const at::Tensor& dy, std::int64_t rows) const;
  at::Tensor forward(const at::Tensor& x) const;  // x has all rows
  at::Tensor forward_add(const at::Tensor& residual, const at::Tensor& x, const Dropout& dropout) const;
  at::Tensor backward_input(const at::Tensor& dy) const;  // dy (N, out) compute type → (N, in) compute type
  void backward_weight(const at::Tensor& x, const at::Tensor& dy) const;
  void backward_bias(const at::Tensor& dy) const;  // dy compute or stream type

 private:
  struct Part {  // weights that are multiplied in one product
    std::vector<Parameter*> weights;
    Parameter* bias = nullptr;             // only with a single weight
    std::int64_t offset = 0, columns = 0;  // columns of the output
  };
  at::Tensor own_backward_input(const at::Tensor& dy) const;
  std::vector<Parameter*> biases_;
  std::vector<Part> parts_;
  std::vector<std::int64_t> widths_;  // output width of each weight
  WeightLayout layout_;
  std::int64_t in_ = 0, out_ = 0;
  // Row-parallel: the lane over which outputs are summed.
  const BlockLane* sums_output_ = nullptr;
  // Column-parallel: the lane over which input gradients are summed.
  const BlockLane* sums_input_gradient_ = nullptr;
};

}  // namespace lockstep
