// Parameter groups: the update rule, learning rate and weight decay of each tensor. Groups are ordered and chosen by
// regular expression over logical names, as configured in the section optimizer.
#pragma once

#include "config/optimizer_options.hpp"
#include "tensor/parameter.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Settings of the optimizer for one parameter.
struct ParameterSettings {
  double lr_scale = 1;  // factor of the schedule's learning rate
  double weight_decay = 0;
  UpdateRule rule = {};
};

/// Returns the first group, with its name, whose pattern matches the tensor's name; nullptr if none does. Pure.
const std::pair<std::string, OptimizerGroup>* group_of(const std::string& name, const OptimizerOptions& options);

/// Returns the settings of one tensor: those of `options`, with adamw instead of muon unless it is a hidden matrix,
/// overridden by the first group that matches. A group without a weight decay leaves optimizer.weight_decay; it is 0
/// for names that match optimizer.decay_exclude and, with optimizer.decay `matrices`, for tensors of fewer than two
/// dimensions. Pure. Throws Error(usage) for a group that assigns muon to a tensor that is no matrix.
ParameterSettings settings_of(const LogicalTensor& tensor, const OptimizerOptions& options);

/// Settings of `parameters`, in their order. A pattern may match none of them, because a pipeline stage has only some
/// of the model's parameters. Pure.
std::vector<ParameterSettings> settings_of(const std::vector<Parameter*>& parameters, const OptimizerOptions& options);

using SettingsByParameter = std::map<const Parameter*, ParameterSettings>;
/// Returns the settings of `parameters` as a map. Pure.
SettingsByParameter settings_by_parameter(const std::vector<Parameter*>& parameters, const OptimizerOptions& options);

/// Notes and warnings about patterns, from the names of all parameters of a model.
struct GroupRemarks {
  std::vector<std::string> notes;     // groups without effect: earlier groups match all of their tensors
  std::vector<std::string> warnings;  // with Unmatched::warn: patterns without a match
};

/// Checks the patterns of groups, optimizer.frozen and optimizer.decay_exclude. Pure. With Unmatched::refuse throws
/// Error(usage), naming the pattern, if one matches nothing.
GroupRemarks check_groups(const std::vector<std::string>& names, const OptimizerOptions& options);

}  // namespace lockstep
