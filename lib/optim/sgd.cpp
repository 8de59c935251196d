#include "optim/sgd.hpp"

#include "base/error.hpp"
#include "optim/sgd_kernel.hpp"
#include "optim/unit_stretches.hpp"

namespace lockstep {

void Sgd::update(Unit& unit, std::int64_t, double lr, double gradient_scale) const {
  const bool keeps = !unit.state().empty();
  for (const auto& parameter : unit.parameters())
    invariant((settings_.at(parameter.get()).rule.momentum != 0) == keeps, "SGD keeps a buffer where it has momentum");
  with_master_type(unit, [&]<class M>(M) {
    M* const weight = values_of<M>(unit.master()).data();
    const M* const gradient = values_of<M>(unit.gradient()).data();
    M* const buffer = keeps ? values_of<M>(unit.state()[0]).data() : nullptr;
    Bf16* const compute = compute_copy_of(unit);
    for_each_stretch(
        unit, settings_,
        [&](const ParameterSettings& settings) {
          return SgdFactors<M>{static_cast<M>(gradient_scale), static_cast<M>(lr * settings.lr_scale),
                               static_cast<M>(settings.weight_decay), static_cast<M>(settings.rule.momentum),
                               settings.rule.nesterov};
        },
        [=](std::int64_t from, std::int64_t to, const SgdFactors<M>& factors) {
          sgd_update<M>(factors, to - from, gradient + from, weight + from, buffer ? buffer + from : nullptr,
                        compute ? compute + from : nullptr);
        });
  });
  complete_copy(unit);
}

}  // namespace lockstep
