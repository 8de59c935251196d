// Stochastic gradient descent with momentum (Sutskever et al., 2013), as torch.optim.SGD computes it without dampening:
// weight decay is added to the gradient, and Nesterov momentum looks one step ahead.
#pragma once

#include "optim/optimizer.hpp"

#include <cstdint>

namespace lockstep {

class Sgd final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;
};

}  // namespace lockstep
