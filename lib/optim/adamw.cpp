#include "optim/adamw.hpp"

#include "base/error.hpp"
#include "optim/adamw_kernel.hpp"
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
  with_state_type(unit, [&]<class M, class S>(M, S) {
    const WeightsInWork<M> weights(unit);
    const M* const gradient = values_of<M>(unit.gradient()).data();
    S* const first = buffer_of<S>(unit, 0);
    S* const second = buffer_of<S>(unit, 1);
    for_each_stretch(
        unit, settings_,
        [&](const ParameterSettings& settings) { return factors_of<M>(settings, step, lr, gradient_scale); },
        [=](std::int64_t from, std::int64_t to, const AdamWFactors<M>& factors) {
          weights(from, to, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
            adamw_update<M, S>(factors, end - begin, gradient + begin, weight, first + begin, second + begin, compute);
          });
        });
  });
  complete_copy(unit);
}

}  // namespace lockstep
