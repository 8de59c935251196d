// The end of a model: logits and token-summed cross entropy in one function, a slice of rows at a time.
#pragma once

#include "architecture/block_profile.hpp"
#include "tensor/block_lane.hpp"
#include "tensor/parameter.hpp"

#include <ATen/core/Tensor.h>

namespace lockstep {

/// Σ over rows whose label is in [0, V) of −log soft-max(x·Wᵀ)[label], or, with `smoothing` ε in [0, 1), of (1 − ε)
/// times that and ε times the mean of −log soft-max(x·Wᵀ) over the vocabulary: () fp64. x (N, C) compute type, head (V,
/// C), labels int32 (N). With autograd the unscaled derivative of the logits (N, V) is kept in the compute type, or,
/// where that is more than `most_kept_bytes`, computed again in backward, which keeps it then if its products are
/// parted (tensor/weight_gradients.hpp); without, only a slice of rows exists at a time. Ranks of `lane` have parts of
/// the vocabulary: what each knows of a slice of rows is gathered, so that all have the same sum, and in backward the
/// gradient of x is summed. Null: this rank has all of it. Without autograd and smoothing the rows whose label has the
/// largest logit are added to `hits`, unless null.
at::Tensor cross_entropy_sum(const at::Tensor& x, Parameter& head, const at::Tensor& labels, double smoothing = 0,
                             std::int64_t most_kept_bytes = most_kept_logits_bytes, const BlockLane* lane = nullptr,
                             double* hits = nullptr);

/// x·Wᵀ (N, V) in fp32 or fp64; not recorded by autograd. Ranks of `lane` gather their parts.
at::Tensor head_logits(const at::Tensor& x, const Parameter& head, const BlockLane* lane = nullptr);

}  // namespace lockstep
