#include "optim/optimizer.hpp"

#include "base/error.hpp"
#include "optim/adamw.hpp"
#include "optim/sgd.hpp"

namespace lockstep {

std::vector<StateDescription> state_of(const OptimizerOptions& options, DType master) {
  switch (options.name) {
    case OptimizerName::adamw: return {{"exp_avg", master}, {"exp_avg_sq", master}};
    case OptimizerName::sgd:
      if (options.momentum == 0) return {};
      return {{"momentum_buffer", master}};
  }
  throw Error(ExitCode::bug, "an optimizer without a description");
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, const std::vector<Parameter*>& parameters) {
  switch (options.name) {
    case OptimizerName::adamw: return std::make_unique<AdamW>(options, parameters);
    case OptimizerName::sgd: return std::make_unique<Sgd>(options, parameters);
  }
  throw Error(ExitCode::bug, "an optimizer that nobody made");
}

}  // namespace lockstep
