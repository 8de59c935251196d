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
  change(rule.adafactor_decay, group.adafactor_decay);
  change(rule.adafactor_eps, group.adafactor_eps);
  change(rule.adafactor_clip, group.adafactor_clip);
  change(rule.adafactor_scale, group.adafactor_scale);
  change(rule.adafactor_relative_step, group.adafactor_relative_step);
  change(rule.adafactor_momentum, group.adafactor_momentum);
  return rule;
}

}  // namespace lockstep
