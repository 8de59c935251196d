#include "optim/adamw.hpp"

#include "base/error.hpp"
#include "optim/unit_stretches.hpp"

#include <cmath>

namespace lockstep {

namespace {

template <class M>
AdamWFactors<M> factors_of(const ParameterSettings& settings, std::int64_t step, double lr, double gradient_scale) {
  const auto [beta1, beta2] = settings.rule.betas;
  const auto count = static_cast<double>(step + 1);
  const double rate = lr * settings.lr_scale;
  return {static_cast<M>(gradient_scale),
          static_cast<M>(1 - rate * settings.weight_decay),
          static_cast<M>(beta1),
          static_cast<M>(beta2),
          static_cast<M>(rate / (1 - std::pow(beta1, count))),
          static_cast<M>(std::sqrt(1 - std::pow(beta2, count))),
          static_cast<M>(settings.rule.eps)};
}

}  // namespace

void AdamW::update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const {
  invariant(rule_buffers(unit) == 2, "AdamW has two moments");
  with_update_kernels(unit, [&]<class M>(const Kernels<M>& on) {
    const auto stretches = stretches_of(unit, settings_, [&](const ParameterSettings& settings) {
      return factors_of<M>(settings, step, lr, gradient_scale);
    });
    const UpdatedWeights<M> weights = updated_weights<M>(unit);
    const M* const gradient = pointer<M>(unit.gradient());
    const at::Tensor &first = unit.state()[0], &second = unit.state()[1];
    if (has_short_state(unit))
      on.adamw_short_state(stretches, unit.length(), weights, gradient, pointer<Bf16>(first), pointer<Bf16>(second));
    else
      on.adamw(stretches, unit.length(), weights, gradient, pointer<M>(first), pointer<M>(second));
  });
  complete_copy(unit);
}

}  // namespace lockstep
