// Gradient norm and gradient clipping.
#pragma once

#include "tensor/unit.hpp"

#include <optional>

namespace lockstep {

/// Adds Σ g² over share `part` of `parts` of the unit's gradient to `sum`, () fp64 on the unit's device, summed in fp64
/// over fixed blocks: the same bits for any number of threads. NaN or infinite if a gradient is. If several ranks hold
/// the same gradient, their shares add up to the whole. Local; the unit's gradients must be finished.
void add_squared_norm(const Unit& unit, const at::Tensor& sum, int part = 0, int parts = 1);

/// Returns the clip factor of gradients for which their norm does not exceed `max_norm`: min(1, max_norm / (norm +
/// 1e-6)), as in torch.nn.utils.clip_grad_norm_; 1 without a max_norm.
double clip_factor(double norm, std::optional<double> max_norm);

}  // namespace lockstep
