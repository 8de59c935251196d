// The end of a model: logits and token-summed cross entropy in one function, computed for a slice of rows at a time.
#pragma once

#include "architecture/function_costs.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace lockstep {

/// A user's loss instead of cross entropy. For each of `rows` rows of logits (rows, V), row-major, with their labels it
/// computes the loss and, unless `derivative` is nullptr, the derivative by each logit (rows, V), in separate memory. A
/// label outside [0, V) does not count. An exception makes the rank fail.
struct RowLoss {
  template <class M>
  using Rows = std::function<void(std::int64_t rows, std::int64_t vocabulary, const M* logits,
                                  const std::int32_t* labels, double* losses, M* derivative)>;
  Rows<float> f32;
  Rows<double> f64;
};

/// The loss function of a step.
struct StepLoss {
  double smoothing = 0;              // ε in [0, 1)
  const RowLoss* of_user = nullptr;  // replaces cross entropy; without smoothing
};

/// Returns the loss summed over the rows with a label in [0, V): () fp64. The loss of a row is −log
/// softmax(x·Wᵀ)[label]; with smoothing ε it is (1 − ε) times that plus ε times the mean of −log softmax(x·Wᵀ) over the
/// vocabulary; or it is the user's loss. x (N, C) compute type, head (V, C), labels int32 (N).
///
/// With autograd the unscaled derivative of the logits (N, V) is kept in the compute type. If it is larger than
/// `most_kept_bytes`, backward computes it again, and keeps it then if its products are deferred
/// (tensor/weight_gradients.hpp). Without autograd only one slice of rows exists at a time.
///
/// The ranks of `lane` hold parts of the vocabulary. They gather their statistics of each slice of rows, so that all
/// have the same sum, and backward sums the gradient of x. nullptr: this rank has the whole vocabulary, which a user's
/// loss requires. Without autograd and smoothing, `correct`, unless nullptr, becomes the number of rows whose label has
/// the largest logit: () fp64.
at::Tensor loss_sum(const at::Tensor& x, Parameter& head, const at::Tensor& labels, const StepLoss& loss = {},
                    std::int64_t most_kept_bytes = most_kept_logits_bytes, const BlockLane* lane = nullptr,
                    at::Tensor* correct = nullptr);

/// x·Wᵀ (N, V) in fp32 or fp64; not recorded by autograd. The ranks of `lane` gather their parts.
at::Tensor head_logits(const at::Tensor& x, const Parameter& head, const BlockLane* lane = nullptr);

}  // namespace lockstep
