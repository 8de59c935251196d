#include "config/optimizer_options.hpp"

namespace lockstep {

UpdateRule changed(UpdateRule rule, const OptimizerGroup& group) {
  const auto change = [](auto& value, const auto& to) { value = to.value_or(value); };
  change(rule.name, group.name);
  change(rule.betas, group.betas);
  change(rule.eps, group.eps);
  change(rule.momentum, group.momentum);
  change(rule.nesterov, group.nesterov);
  change(rule.state_dtype, group.state_dtype);
  change(rule.muon_momentum, group.muon_momentum);
  change(rule.muon_nesterov, group.muon_nesterov);
  change(rule.muon_steps, group.muon_steps);
  change(rule.muon_adjust, group.muon_adjust);
  return rule;
}

}  // namespace lockstep
