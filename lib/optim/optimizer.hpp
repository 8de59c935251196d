// What updates weights: an optimizer declares the state that it keeps beside each weight, which units allocate, plans
// count and checkpoints store, and updates one unit at a time. A run may update weights in several ways, each by an
// optimizer of its own; a unit has weights of one way. Kinds: optim/adafactor.hpp, adamw.hpp, lion.hpp, muon.hpp,
// sgd.hpp, and those of plug-ins, plugin_optimizer.hpp.
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
  /// the number of updates before this one. The result does not depend on the number of threads. Local.
  virtual void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const = 0;

 protected:
  SettingsByParameter settings_;
};

/// The ways in which weights are updated, apart in the optimizer or in what it keeps: what `options` say, where it is
/// muon adamw besides, and what groups make of these; adafactor's of matrices and of vectors. Pure.
std::vector<UpdateRule> ways_of(const OptimizerOptions& options);
/// The number of that way for a tensor, as settings_of (optim/groups.hpp) says. Pure. Throws Error(usage) as that does.
int way_of(const OptimizerOptions& options, const LogicalTensor& tensor);
/// What is kept beside weights of type `master`, by way. Pure.
UpdateStates states_of(const OptimizerOptions& options, DType master);
/// What rounding took from weights of 16 bits, as state.
inline constexpr const char* compensation_name = "compensation";
/// What one optimizer keeps, a compensation last. Pure.
std::vector<StateDescription> state_of(const UpdateRule& rule, DType master);

/// What the update of a tensor needs. Pure.
UpdateNeeds needs_of(const OptimizerOptions& options, const LogicalTensor& tensor);
/// Memory that updates of `units` of these tensors, of weights of type `master`, keep for their work. Pure.
std::int64_t update_bytes(const OptimizerOptions& options, const std::vector<LogicalTensor>& tensors,
                          const std::vector<UnitPlan>& units, DType master);

/// For the `parameters` of a model, or of some of its stages, whose units have that state, with their settings
/// (optim/groups.hpp). Local.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const std::vector<Parameter*>& parameters);

}  // namespace lockstep
