#include "optim/lion.hpp"

#include "base/error.hpp"
#include "optim/lion_kernel.hpp"
#include "optim/unit_stretches.hpp"

namespace lockstep {

void Lion::update(Unit& unit, std::int64_t, double lr, double gradient_scale) const {
  invariant(rule_buffers(unit) == 1, "Lion has one momentum");
  with_state_type(unit, [&]<class M, class S>(M, S) {
    const WeightsInWork<M> weights(unit);
    const M* const gradient = values_of<M>(unit.gradient()).data();
    S* const average = buffer_of<S>(unit, 0);
    for_each_stretch(
        unit, settings_,
        [&](const ParameterSettings& settings) {
          const double rate = lr * settings.lr_scale;
          return LionFactors<M>{static_cast<M>(gradient_scale), static_cast<M>(rate),
                                static_cast<M>(1 - rate * settings.weight_decay),
                                static_cast<M>(settings.rule.betas[0]), static_cast<M>(settings.rule.betas[1])};
        },
        [=](std::int64_t from, std::int64_t to, const LionFactors<M>& factors) {
          weights(from, to, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
            lion_update<M, S>(factors, end - begin, gradient + begin, weight, average + begin, compute);
          });
        });
  });
  complete_copy(unit);
}

}  // namespace lockstep
