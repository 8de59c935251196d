// AdamW with decoupled weight decay (Loshchilov and Hutter, 2019), as torch.optim.AdamW computes it, in one pass over a
// unit's flat buffers: clip factor, moments, weight and bf16 copy together. The moments live in the unit; the only
// other state is the number of steps.
#pragma once

#include "config/optimizer_options.hpp"
#include "optim/groups.hpp"
#include "tensor/unit.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace lockstep {

class AdamW {
 public:
  /// For the `parameters` of a model with their settings (optim/groups.hpp). Throws Error(usage) as settings_of.
  AdamW(const OptimizerOptions& options, const std::vector<Parameter*>& parameters);

  /// Updates weights, moments and compute copy of one unit from gradient × gradient_scale (the clip factor). `step` is
  /// 0-based: the bias corrections are 1 − β^(step + 1). Result independent of the number of threads. Local.
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const;

 private:
  OptimizerOptions options_;
  std::map<const Parameter*, ParameterSettings> settings_;
};

/// Σ g² over share `part` of `parts` of the unit's gradient, accumulated in fp64 over fixed blocks: the same bits for
/// any number of threads. NaN or infinite if a gradient is. The shares of a gradient that several ranks hold alike add
/// up to the whole. Local; the unit's gradients must be finished.
double squared_norm(const Unit& unit, int part = 0, int parts = 1);

/// What gradients are multiplied with so that their norm does not exceed `max_norm`: min(1, max_norm / (norm + 1e-6)),
/// as torch.nn.utils.clip_grad_norm_; 1 without a max_norm.
double clip_factor(double norm, std::optional<double> max_norm);

}  // namespace lockstep
