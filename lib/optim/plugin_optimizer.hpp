// An update rule from a plug-in (plugin/lockstep_plugin.h). The update of an element depends only on that element, so
// weights may be cut anywhere.
#pragma once

#include "optim/optimizer.hpp"
#include "plugin/plugins.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// The state that the rule keeps for weights of type `master`, in that type. Local. Throws Error(usage) for fp64
/// weights if the plug-in has no fp64 update.
std::vector<StateDescription> state_of_plugin(OptimizerName rule, DType master);

class PluginOptimizer final : public Optimizer {
 public:
  PluginOptimizer(OptimizerName rule, const OptimizerOptions& options, const std::vector<Parameter*>& parameters);
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;

 private:
  PluginEntry<lockstep_optimizer> rule_;
};

}  // namespace lockstep
