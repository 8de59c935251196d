#include "optim/adamw.hpp"

#include "base/error.hpp"
#include "optim/adamw_kernel.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

/// A stretch of a unit's buffers with equal settings.
template <class M>
struct Stretch {
  std::int64_t begin, end;
  AdamWFactors<M> factors;
};

template <class M>
void update_unit(Unit& unit, const std::vector<Stretch<M>>& stretches) {
  M* const weight = values_of<M>(unit.master()).data();
  const M* const gradient = values_of<M>(unit.gradient()).data();
  M* const first = values_of<M>(unit.first_moment()).data();
  M* const second = values_of<M>(unit.second_moment()).data();
  Bf16* const compute =
      unit.precision() == Precision::bf16 ? static_cast<Bf16*>(unit.compute().mutable_data_ptr()) : nullptr;
  parallel_for(unit.length(), 8192, [&](std::int64_t begin, std::int64_t end) {
    for (const Stretch<M>& stretch : stretches) {
      const std::int64_t from = std::max(begin, stretch.begin), to = std::min(end, stretch.end);
      if (from >= to) continue;
      adamw_update<M>(stretch.factors, to - from, gradient + from, weight + from, first + from, second + from,
                      compute ? compute + from : nullptr);
    }
  });
}

template <class M>
AdamWFactors<M> factors_of(const OptimizerOptions& options, const ParameterSettings& settings, std::int64_t step,
                           double lr, double gradient_scale) {
  const auto [beta1, beta2] = options.betas;
  const auto count = static_cast<double>(step + 1);
  const double rate = lr * settings.lr_scale;
  return {static_cast<M>(gradient_scale),
          static_cast<M>(1 - rate * settings.weight_decay),
          static_cast<M>(beta1),
          static_cast<M>(beta2),
          static_cast<M>(rate / (1 - std::pow(beta1, count))),
          static_cast<M>(std::sqrt(1 - std::pow(beta2, count))),
          static_cast<M>(options.eps)};
}

}  // namespace

AdamW::AdamW(const OptimizerOptions& options, const std::vector<Parameter*>& parameters) : options_(options) {
  const std::vector<ParameterSettings> settings = settings_of(parameters, options);
  for (std::size_t i = 0; i < parameters.size(); ++i) settings_[parameters[i]] = settings[i];
}

void AdamW::update(Unit& unit, std::int64_t step, double lr, double gradient_scale) const {
  const auto with = [&]<class M>(M) {
    std::vector<Stretch<M>> stretches;
    for (const auto& parameter : unit.parameters()) {
      const auto settings = settings_.find(parameter.get());
      invariant(settings != settings_.end(), "the optimizer knows every parameter that it updates");
      stretches.push_back({parameter->offset(), parameter->offset() + parameter->elements(),
                           factors_of<M>(options_, settings->second, step, lr, gradient_scale)});
    }
    update_unit<M>(unit, stretches);
  };
  if (unit.precision() == Precision::fp64) {
    with(double{});
  } else {
    with(float{});
  }
}

double squared_norm(const Unit& unit, int part, int parts) {
  const std::int64_t begin = unit.length() * part / parts, end = unit.length() * (part + 1) / parts;
  if (unit.precision() == Precision::fp64)
    return sum_of_squares<double>(values_of<double>(unit.gradient()).data() + begin, end - begin);
  return sum_of_squares<float>(values_of<float>(unit.gradient()).data() + begin, end - begin);
}

double clip_factor(double norm, std::optional<double> max_norm) {
  return max_norm ? std::min(1.0, *max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace lockstep
