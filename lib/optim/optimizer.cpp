#include "optim/optimizer.hpp"

#include "base/error.hpp"
#include "optim/adafactor.hpp"
#include "optim/adamw.hpp"
#include "optim/lion.hpp"
#include "optim/muon.hpp"
#include "optim/plugin_optimizer.hpp"
#include "optim/sgd.hpp"
#include "tensor/kernels/orthogonalise_kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

std::unique_ptr<Optimizer> make_one(OptimizerName name, const OptimizerOptions& options,
                                    const std::vector<Parameter*>& parameters) {
  if (plugin_index(name)) return std::make_unique<PluginOptimizer>(name, options, parameters);
  switch (name) {
    case OptimizerName::adamw: return std::make_unique<AdamW>(options, parameters);
    case OptimizerName::sgd: return std::make_unique<Sgd>(options, parameters);
    case OptimizerName::lion: return std::make_unique<Lion>(options, parameters);
    case OptimizerName::muon: return std::make_unique<Muon>(options, parameters);
    case OptimizerName::adafactor: return std::make_unique<Adafactor>(options, parameters);
  }
  fail(ExitCode::bug, "unknown OptimizerName {}", static_cast<int>(name));
}

std::vector<StateDescription> state_of_rule(const UpdateRule& rule, DType master) {
  const DType kept = rule.state_dtype == StateType::bf16 ? DType::bf16 : master;
  if (plugin_index(rule.name)) return state_of_plugin(rule.name, master);
  switch (rule.name) {
    case OptimizerName::adamw: return {{"exp_avg", kept}, {"exp_avg_sq", kept}};
    case OptimizerName::sgd:
      if (rule.momentum == 0) return {};
      return {{"momentum_buffer", master}};
    case OptimizerName::lion: return {{"exp_avg", kept}};
    case OptimizerName::muon:
      if (rule.muon_momentum == 0) return {};
      return {{"momentum_buffer", kept}};
    case OptimizerName::adafactor: {
      std::vector<StateDescription> state{{"exp_avg_sq", master}};
      if (rule.factored)
        state = {{"exp_avg_sq_row", master, StateShape::rows}, {"exp_avg_sq_col", master, StateShape::columns}};
      if (rule.adafactor_momentum != 0) state.push_back({"exp_avg", master});
      return state;
    }
  }
  fail(ExitCode::bug, "unknown OptimizerName {}", static_cast<int>(rule.name));
}

bool is_same_way(const UpdateRule& a, const UpdateRule& b) {
  const bool alike = a.name != OptimizerName::muon || a.muon_steps == b.muon_steps;  // for all matrices of a unit
  return a.name == b.name && alike && state_of(a, DType::f32) == state_of(b, DType::f32);
}

/// Each unit in its way.
class PerUnitOptimizer final : public Optimizer {
 public:
  PerUnitOptimizer(const OptimizerOptions& options, const std::vector<Parameter*>& parameters)
      : Optimizer(options, parameters) {
    for (const UpdateRule& way : update_rules_of(options)) ways_.push_back(make_one(way.name, options, parameters));
  }
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override {
    const auto way = static_cast<std::size_t>(unit.parameters().front()->description().update);
    ways_.at(way)->update(unit, step, lr, gradient_scale);
  }

 private:
  std::vector<std::unique_ptr<Optimizer>> ways_;
};

}  // namespace

std::vector<UpdateRule> update_rules_of(const OptimizerOptions& options) {
  std::vector<UpdateRule> ways;
  const auto add = [&](UpdateRule rule) {
    for (const bool factored : {true, false}) {
      rule.factored = factored && rule.name == OptimizerName::adafactor;
      if (std::ranges::none_of(ways, [&](const UpdateRule& way) { return is_same_way(way, rule); }))
        ways.push_back(rule);
    }
  };
  add(options);
  UpdateRule of_others = options;  // that are no hidden matrices
  if (options.name == OptimizerName::muon) of_others.name = OptimizerName::adamw;
  add(of_others);
  for (const auto& [name, group] : options.groups) {
    add(changed(options, group));
    add(changed(of_others, group));
  }
  return ways;
}

int update_rule_index(const OptimizerOptions& options, const LogicalTensor& tensor) {
  const std::vector<UpdateRule> ways = update_rules_of(options);
  const UpdateRule rule = settings_of(tensor, options).rule;
  const auto way = std::ranges::find_if(ways, [&](const UpdateRule& each) { return is_same_way(each, rule); });
  return static_cast<int>(way - ways.begin());
}

std::vector<StateDescription> state_of(const UpdateRule& rule, DType master) {
  std::vector<StateDescription> state = state_of_rule(rule, master);
  if (rule.kahan) state.push_back({compensation_name, DType::bf16});
  return state;
}

UpdateStates states_of(const OptimizerOptions& options, DType master) {
  UpdateStates states;
  for (const UpdateRule& way : update_rules_of(options)) states.push_back(state_of(way, master));
  return states;
}

UpdateNeeds needs_of(const OptimizerOptions& options, const LogicalTensor& tensor) {
  switch (settings_of(tensor, options).rule.name) {
    case OptimizerName::adamw:
    case OptimizerName::sgd:
    case OptimizerName::lion: return UpdateNeeds::parts;
    case OptimizerName::muon: return UpdateNeeds::matrices;
    case OptimizerName::adafactor: return UpdateNeeds::sums;
  }
  return UpdateNeeds::parts;  // of a plug-in
}

std::int64_t update_bytes(const OptimizerOptions& options, const std::vector<LogicalTensor>& tensors,
                          const std::vector<UnitPlan>& units, DType master) {
  std::int64_t directions = 0, iteration = 0, sums = 0;
  for (const UnitPlan& unit : units) {
    std::int64_t shared = 0;  // what goes to owners and what comes, each where it lies and where it is exchanged
    for (const BlockExchange& exchange : unit.update_exchanges) shared += 2 * exchange.bytes();
    std::int64_t of_unit = 0;
    for (const int index : unit.parameters) {
      const LogicalTensor& tensor = tensors[static_cast<std::size_t>(index)];
      if (!tensor.trained) continue;
      switch (needs_of(options, tensor)) {
        case UpdateNeeds::parts: break;
        case UpdateNeeds::matrices: {
          const Shape shape = matrix_shape(tensor);
          directions = std::max(directions, shared == 0 ? elements(tensor.shape) * size_of(master) : shared);
          iteration = std::max(iteration, orthogonaliser_bytes(shape[0], shape[1], size_of(master)));
          break;
        }
        case UpdateNeeds::sums: of_unit += sums_bytes(tensor, master); break;
      }
    }
    sums = std::max(sums, of_unit);
  }
  return directions + iteration + sums;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const std::vector<Parameter*>& parameters) {
  if (update_rules_of(options).size() == 1) return make_one(options.name, options, parameters);
  return std::make_unique<PerUnitOptimizer>(options, parameters);
}

}  // namespace lockstep
