// Adafactor (Shazeer and Stern, 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"). Of the second
// moments of a matrix only the row and column means are kept, and they approximate each element; vectors keep all
// second moments. If ranks hold parts of tensors, they sum their contributions, and all of them keep the whole means.
#pragma once

#include "optim/optimizer.hpp"

#include <cstdint>

namespace lockstep {

class Adafactor final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  /// At step t, from 1 on, with β = 1 − t^adafactor_decay and (ε₁, ε₂) = adafactor_eps: the row means r and column
  /// means c of g² + ε₁ are updated by r ← βr + (1 − β)·mean, and the step is u = g / √(r·c / mean(r)). For vectors v
  /// is updated likewise and u = g / √v. The step is divided by max(1, rms(u) / adafactor_clip), and averaged if there
  /// is a momentum. The weight becomes w(1 − lr·decay) − ρ·s·u. ρ is lr, or min(lr, 1/√t) with relative steps; s is 1,
  /// or max(ε₂, rms(w)) with adafactor_scale. Each matrix of a stack is updated by itself. Collective over the unit's
  /// sharers.
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;
};

/// Bytes of working memory for the update of one tensor of weights of type `master`; of stacked experts, for all of
/// them. Pure.
std::int64_t sums_bytes(const LogicalTensor& tensor, DType master);

}  // namespace lockstep
