// Adafactor (Shazeer and Stern, 2018, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost"): of the second
// moments of a matrix only the means of its rows and columns are kept, which stand for each element; of a vector, all.
// Where ranks have parts of tensors they sum up what they have of these, and all of them keep the whole means.
#pragma once

#include "optim/optimizer.hpp"

#include <cstdint>

namespace lockstep {

class Adafactor final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  /// At step t, from 1 on, with β = 1 − t^adafactor_decay and (ε₁, ε₂) = adafactor_eps: the means r of rows and c of
  /// columns of g² + ε₁ follow as r ← βr + (1 − β)·mean, and the step is u = g / √(r·c / mean(r)); of vectors v follows
  /// and u = g / √v. It is divided by max(1, rms(u) / adafactor_clip), and averaged where there is a momentum. The
  /// weight becomes w(1 − lr·decay) − ρ·s·u, where ρ is lr, or min(lr, 1/√t) of relative steps, and s is 1, or max(ε₂,
  /// rms(w)) with adafactor_scale. Of a stack each matrix goes by itself. Collective over the unit's sharers.
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;
};

/// Memory that an update keeps for its work on one tensor of weights of type `master`; of experts on all. Pure.
std::int64_t sums_bytes(const LogicalTensor& tensor, DType master);

}  // namespace lockstep
