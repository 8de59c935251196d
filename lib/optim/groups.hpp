// Which learning rate and weight decay each parameter gets: ordered groups chosen by regular expression over logical
// names, as the optimizer section of the configuration says.
#pragma once

#include "config/optimizer_options.hpp"
#include "tensor/parameter.hpp"

#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// What the optimizer applies to one parameter.
struct ParameterSettings {
  double lr_scale = 1;  // × the schedule's learning rate
  double weight_decay = 0;
};

/// The first group whose pattern matches the name of a tensor; null: none. Pure.
const OptimizerGroup* group_of(const std::string& name, const OptimizerOptions& options);

/// What applies to one tensor. Pure.
ParameterSettings settings_of(const LogicalTensor& tensor, const OptimizerOptions& options);

/// Settings of `parameters`, in their order. The first group whose pattern matches the logical name gives lr_scale and,
/// if it sets one, weight decay; otherwise weight decay is optimizer.weight_decay, and 0 for names that match
/// optimizer.decay_exclude and, where optimizer.decay is `matrices`, for tensors of fewer than two dimensions. Local,
/// pure. Not all patterns need match: a stage of a pipeline has some of the parameters.
std::vector<ParameterSettings> settings_of(const std::vector<Parameter*>& parameters, const OptimizerOptions& options);

using SettingsByParameter = std::map<const Parameter*, ParameterSettings>;
/// The same, to be looked up.
SettingsByParameter settings_by_parameter(const std::vector<Parameter*>& parameters, const OptimizerOptions& options);

/// Checks the patterns against the names of all parameters of a model. Returns a note for each group that has no effect
/// since earlier ones take all its tensors. Local, pure. Throws Error(usage) for a pattern that matches no parameter,
/// naming it.
std::vector<std::string> check_groups(const std::vector<std::string>& names, const OptimizerOptions& options);

}  // namespace lockstep
