#include "optim/sgd.hpp"

#include "base/error.hpp"
#include "optim/sgd_kernel.hpp"
#include "optim/unit_stretches.hpp"

namespace lockstep {

void Sgd::update(Unit& unit, std::int64_t, double lr, double gradient_scale) const {
  const bool keeps = rule_buffers(unit) > 0;
  for (const auto& parameter : unit.parameters())
    invariant((settings_.at(parameter.get()).rule.momentum != 0) == keeps, "SGD with momentum has a momentum buffer");
  with_master_type(unit, [&]<class M>(M) {
    const WeightsInWork<M> weights(unit);
    const M* const gradient = values_of<M>(unit.gradient()).data();
    M* const buffer = keeps ? values_of<M>(unit.state()[0]).data() : nullptr;
    for_each_stretch(
        unit, settings_,
        [&](const ParameterSettings& settings) {
          return SgdFactors<M>{static_cast<M>(gradient_scale), static_cast<M>(lr * settings.lr_scale),
                               static_cast<M>(settings.weight_decay), static_cast<M>(settings.rule.momentum),
                               settings.rule.nesterov};
        },
        [=](std::int64_t from, std::int64_t to, const SgdFactors<M>& factors) {
          weights(from, to, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
            sgd_update<M>(factors, end - begin, gradient + begin, weight, buffer ? buffer + begin : nullptr, compute);
          });
        });
  });
  complete_copy(unit);
}

}  // namespace lockstep
