// Lion (Chen et al., 2023, "Symbolic Discovery of Optimization Algorithms"): each weight moves by the learning rate in
// the direction of the sign of β1·average + (1 − β1)·gradient, with decoupled weight decay. Then the average is updated
// with β2.
#pragma once

#include "optim/optimizer.hpp"

#include <cstdint>

namespace lockstep {

class Lion final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;
};

}  // namespace lockstep
