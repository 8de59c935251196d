#include "optim/lion.hpp"

#include "base/error.hpp"
#include "optim/unit_stretches.hpp"

namespace lockstep {

void Lion::update(Unit& unit, std::int64_t, double lr, double gradient_scale) const {
  invariant(rule_buffers(unit) == 1, "Lion has one momentum");
  with_update_kernels(unit, [&]<class M>(const Kernels<M>& on) {
    const auto stretches = stretches_of(unit, settings_, [&](const ParameterSettings& settings) {
      const double rate = lr * settings.lr_scale;
      return LionFactors<M>{static_cast<M>(gradient_scale), static_cast<M>(rate),
                            static_cast<M>(1 - rate * settings.weight_decay), static_cast<M>(settings.rule.betas[0]),
                            static_cast<M>(settings.rule.betas[1])};
    });
    const UpdatedWeights<M> weights = updated_weights<M>(unit);
    const M* const gradient = pointer<M>(unit.gradient());
    const at::Tensor& average = unit.state()[0];
    if (has_short_state(unit))
      on.lion_short_state(stretches, unit.length(), weights, gradient, pointer<Bf16>(average));
    else
      on.lion(stretches, unit.length(), weights, gradient, pointer<M>(average));
  });
  complete_copy(unit);
}

}  // namespace lockstep
