// Which update rule, learning rate and weight decay each tensor gets: ordered groups chosen by regular expression over
// logical names, as the optimizer section of the configuration says.
#pragma once

#include "config/optimizer_options.hpp"
#include "tensor/parameter.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// What the optimizer applies to one parameter.
struct ParameterSettings {
  double lr_scale = 1;  // × the schedule's learning rate
  double weight_decay = 0;
  UpdateRule rule = {};
};

/// The first group, with its name, whose pattern matches that of a tensor; null: none. Pure.
const std::pair<std::string, OptimizerGroup>* group_of(const std::string& name, const OptimizerOptions& options);

/// What applies to one tensor: what `options` say, of hidden matrices where they name muon, else of adamw; and what the
/// first group that matches says instead. Without a decay in that it is optimizer.weight_decay, and 0 for names that
/// match optimizer.decay_exclude and, where optimizer.decay is `matrices`, for tensors of fewer than two dimensions.
/// Pure. Throws Error(usage) for a group that gives muon what is no matrix.
ParameterSettings settings_of(const LogicalTensor& tensor, const OptimizerOptions& options);

/// Settings of `parameters`, in their order. Pure. Not all patterns need match: a stage of a pipeline has some of the
/// parameters.
std::vector<ParameterSettings> settings_of(const std::vector<Parameter*>& parameters, const OptimizerOptions& options);

using SettingsByParameter = std::map<const Parameter*, ParameterSettings>;
/// The same, to be looked up.
SettingsByParameter settings_by_parameter(const std::vector<Parameter*>& parameters, const OptimizerOptions& options);

/// What is to be said of patterns, as the names of all parameters of a model show.
struct GroupRemarks {
  std::vector<std::string> notes;     // of groups without effect, since earlier ones take all their tensors
  std::vector<std::string> warnings;  // where Unmatched::warn is, of patterns that match nothing
};

/// Pure. Throws Error(usage) for a pattern that matches nothing, naming it, where that is refused.
GroupRemarks check_groups(const std::vector<std::string>& names, const OptimizerOptions& options);

}  // namespace lockstep
