// Which learning rate and weight decay each parameter gets: ordered groups chosen by regular expression over logical names.
#pragma once

#include "model/model.hpp"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// One group as configured; unset numbers are those of the optimizer.
struct ParameterGroup {
  std::string pattern;                  // ECMAScript regular expression searched in the logical name
  double lr_scale = 1;                  // × the schedule's learning rate
  std::optional<double> weight_decay;
};

/// What the optimizer applies to one parameter.
struct ParameterSettings {
  double lr_scale = 1;
  double weight_decay = 0;
};

/// Settings of `parameters`, in their order: the first matching group wins; without a group, `weight_decay`. Biases, norms and names that
/// match `no_decay` have weight decay 0 unless their group sets one.
/// Throws Error(usage) for a malformed pattern and for a pattern that matches no parameter, naming it.
std::vector<ParameterSettings> settings_of(const std::vector<Parameter*>& parameters, const std::vector<ParameterGroup>& groups,
                                           const std::vector<std::string>& no_decay, double weight_decay);

}  // namespace lockstep
