// Interface of optimizers. An optimizer declares the state that it keeps for each weight: units allocate it, plans
// count it, checkpoints store it. It updates one unit at a time. A run may use several optimizers (kinds of updates);
// all weights of a unit use the same one. Implementations: optim/adafactor.hpp, adamw.hpp, lion.hpp, muon.hpp, sgd.hpp,
// and plugin_optimizer.hpp for plug-ins.
#pragma once

#include "architecture/architecture.hpp"
#include "config/optimizer_options.hpp"
#include "optim/groups.hpp"
#include "program/model_plan.hpp"
#include "tensor/unit.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

class Optimizer {
 public:
  /// For the `parameters` of a model, or of some of its stages.
  Optimizer(const OptimizerOptions& options, const std::vector<Parameter*>& parameters)
      : settings_(settings_by_parameter(parameters, options)) {}
  virtual ~Optimizer() = default;
  /// Updates weights, state and compute copy of one unit from gradient × gradient_scale (the clip factor). `step` is
  /// the number of earlier updates. The result does not depend on the number of threads. Local, or Collective over the
  /// unit's sharers if it has any (Unit::sharers).
  virtual void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const = 0;

 protected:
  SettingsByParameter settings_;
};

/// The update rules of a run that differ in the optimizer or in its state: the rule of `options`, adamw in addition to
/// muon, and the variants that groups make of these. Adafactor counts as two, one for matrices and one for vectors.
/// Pure.
std::vector<UpdateRule> update_rules_of(const OptimizerOptions& options);
/// The index of a tensor's rule in update_rules_of, by settings_of (optim/groups.hpp). Pure. Throws Error(usage) as
/// settings_of does.
int update_rule_index(const OptimizerOptions& options, const LogicalTensor& tensor);
/// The state for weights of type `master`, by index in update_rules_of. Pure.
UpdateStates states_of(const OptimizerOptions& options, DType master);
/// Name of the state that holds the rounding errors of 16-bit weights.
inline constexpr const char* compensation_name = "compensation";
/// The state of one update rule, with the compensation last. Pure.
std::vector<StateDescription> state_of(const UpdateRule& rule, DType master);

/// The data that the update of a tensor needs beyond this rank's part of it. Pure.
UpdateNeeds needs_of(const OptimizerOptions& options, const LogicalTensor& tensor);
/// Bytes of working memory for updates of `units` of these tensors, with weights of type `master`. Pure.
std::int64_t update_bytes(const OptimizerOptions& options, const std::vector<LogicalTensor>& tensors,
                          const std::vector<UnitPlan>& units, DType master);

/// Creates the optimizer for the `parameters` of a model, or of some of its stages, with their settings
/// (optim/groups.hpp). Their units must have its state. Local.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const std::vector<Parameter*>& parameters);

}  // namespace lockstep
