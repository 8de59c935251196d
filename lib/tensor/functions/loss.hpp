// The end of a model: logits and token-summed cross entropy in one function, a slice of rows at a time.
#pragma once

#include "architecture/block_profile.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace lockstep {

/// A loss that is no built-in one: of each of `rows` rows of logits (rows, V), row-major, with these labels the loss,
/// and, unless null, its derivative by each logit (rows, V), in other memory. A label outside [0, V) does not count.
/// Throws what a rank then fails with.
struct RowLoss {
  template <class M>
  using Rows = std::function<void(std::int64_t rows, std::int64_t vocabulary, const M* logits,
                                  const std::int32_t* labels, double* losses, M* derivative)>;
  Rows<float> f32;
  Rows<double> f64;
};

/// What the labels of a step make of its logits.
struct StepLoss {
  double smoothing = 0;              // ε in [0, 1)
  const RowLoss* of_user = nullptr;  // instead of cross entropy, without smoothing
};

/// Σ over rows whose label is in [0, V) of −log soft-max(x·Wᵀ)[label], or, with smoothing ε, of (1 − ε) times that and
/// ε times the mean of −log soft-max(x·Wᵀ) over the vocabulary, or of the user's loss: () fp64. x (N, C) compute type,
/// head (V, C), labels int32 (N). With autograd the unscaled derivative of the logits (N, V) is kept in the compute
/// type, or, where that is more than `most_kept_bytes`, computed again in backward, which keeps it then if its products
/// are parted (tensor/weight_gradients.hpp); without, only a slice of rows exists at a time. Ranks of `lane` have parts
/// of the vocabulary: what each knows of a slice of rows is gathered, so that all have the same sum, and in backward
/// the gradient of x is summed. Null: this rank has all of it. Without autograd and smoothing the rows whose label has
/// the largest logit are added to `hits`, unless null. A loss of users needs all of the vocabulary on this rank.
at::Tensor loss_sum(const at::Tensor& x, Parameter& head, const at::Tensor& labels, const StepLoss& loss = {},
                    std::int64_t most_kept_bytes = most_kept_logits_bytes, const BlockLane* lane = nullptr,
                    double* hits = nullptr);

/// x·Wᵀ (N, V) in fp32 or fp64; not recorded by autograd. Ranks of `lane` gather their parts.
at::Tensor head_logits(const at::Tensor& x, const Parameter& head, const BlockLane* lane = nullptr);

}  // namespace lockstep
