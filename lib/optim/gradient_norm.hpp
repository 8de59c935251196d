// The norm of gradients, and what clipping makes of it.
#pragma once

#include "tensor/unit.hpp"

#include <optional>

namespace lockstep {

/// Σ g² over share `part` of `parts` of the unit's gradient, accumulated in fp64 over fixed blocks: the same bits for
/// any number of threads. NaN or infinite if a gradient is. The shares of a gradient that several ranks hold alike add
/// up to the whole. Local; the unit's gradients must be finished.
double squared_norm(const Unit& unit, int part = 0, int parts = 1);

/// What gradients are multiplied with so that their norm does not exceed `max_norm`: min(1, max_norm / (norm + 1e-6)),
/// as torch.nn.utils.clip_grad_norm_; 1 without a max_norm.
double clip_factor(double norm, std::optional<double> max_norm);

}  // namespace lockstep
