// An update rule that a plug-in brings (plugin/lockstep_plugin.h): what becomes of an element hangs on it alone, so
// that weights may be cut anywhere.
#pragma once

#include "optim/optimizer.hpp"
#include "plugin/plugins.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// What the rule keeps beside weights of type `master`, in that type. Local. Throws Error(usage) for weights in fp64
/// where the plug-in has no update of them.
std::vector<StateDescription> state_of_plugin(OptimizerName rule, DType master);

class PluginOptimizer final : public Optimizer {
 public:
  PluginOptimizer(OptimizerName rule, const OptimizerOptions& options, const std::vector<Parameter*>& parameters);
  void update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const override;

 private:
  PluginEntry<lockstep_optimizer> rule_;
};

}  // namespace lockstep
