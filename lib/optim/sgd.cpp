#include "optim/sgd.hpp"

#include "base/error.hpp"
#include "optim/unit_stretches.hpp"

namespace lockstep {

void Sgd::update(Unit& unit, std::int64_t, double lr, double gradient_scale) const {
  const bool keeps = rule_buffers(unit) > 0;
  for (const auto& parameter : unit.parameters())
    invariant((settings_.at(parameter.get()).rule.momentum != 0) == keeps, "SGD with momentum has a momentum buffer");
  with_update_kernels(unit, [&]<class M>(const Kernels<M>& on) {
    const auto stretches = stretches_of(unit, settings_, [&](const ParameterSettings& settings) {
      return SgdFactors<M>{static_cast<M>(gradient_scale), static_cast<M>(lr * settings.lr_scale),
                           static_cast<M>(settings.weight_decay), static_cast<M>(settings.rule.momentum),
                           settings.rule.nesterov};
    });
    on.sgd(stretches, unit.length(), updated_weights<M>(unit), pointer<M>(unit.gradient()),
           keeps ? pointer<M>(unit.state()[0]) : nullptr);
  });
  complete_copy(unit);
}

}  // namespace lockstep
