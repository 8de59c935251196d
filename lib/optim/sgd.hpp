// Stochastic gradient descent with momentum (Sutskever et al., 2013), as torch.optim.SGD computes it without dampening:
// weight decay is added to the gradient, and with Nesterov's momentum the step looks one step ahead.
#pragma once

#include "optim/optimizer.hpp"
#include "optim/unit_stretches.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerOptions& options, const std::vector<Parameter*>& parameters);
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;

 private:
  OptimizerOptions options_;
  SettingsByParameter settings_;
};

}  // namespace lockstep
