#include "optim/groups.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

namespace {

void require_match(const NamePattern& pattern, const std::vector<std::string>& names, std::string_view option) {
  const auto matches = [&](const std::string& name) { return pattern.matches(name); };
  if (std::any_of(names.begin(), names.end(), matches)) return;
  const std::string example = names.empty() ? std::string() : fmt::format("; the first is '{}'", names.front());
  throw Error(
      ExitCode::usage,
      fmt::format("{}: pattern '{}' matches none of the model's {} parameters", option, pattern.text(), names.size()),
      fmt::format("patterns are searched for in Hugging Face names{}", example));
}

double own_decay(const LogicalTensor& tensor, const OptimizerOptions& options) {
  const bool excluded = std::ranges::any_of(options.decay_exclude,
                                            [&](const NamePattern& pattern) { return pattern.matches(tensor.name); });
  return excluded || (options.decay == Decay::matrices && tensor.shape.size() < 2) ? 0 : options.weight_decay;
}

}  // namespace

std::vector<std::string> check_groups(const std::vector<std::string>& names, const OptimizerOptions& options) {
  for (const OptimizerGroup& group : options.groups) require_match(group.match, names, "optimizer.groups");
  for (const NamePattern& pattern : options.frozen) require_match(pattern, names, "optimizer.frozen");
  for (const NamePattern& pattern : options.decay_exclude) require_match(pattern, names, "optimizer.decay_exclude");
  std::vector<std::string> left = names;
  std::vector<std::string> notes;
  for (const OptimizerGroup& group : options.groups) {
    if (std::erase_if(left, [&](const std::string& name) { return group.match.matches(name); }) == 0)
      notes.push_back(
          fmt::format("optimizer.groups: '{}' has no effect: earlier groups take all its tensors", group.match.text()));
  }
  return notes;
}

const OptimizerGroup* group_of(const std::string& name, const OptimizerOptions& options) {
  const auto group =
      std::ranges::find_if(options.groups, [&](const OptimizerGroup& each) { return each.match.matches(name); });
  return group == options.groups.end() ? nullptr : &*group;
}

ParameterSettings settings_of(const LogicalTensor& tensor, const OptimizerOptions& options) {
  ParameterSettings own{.lr_scale = 1, .weight_decay = own_decay(tensor, options)};
  if (const OptimizerGroup* group = group_of(tensor.name, options)) {
    own.lr_scale = group->lr_scale;
    own.weight_decay = group->weight_decay.value_or(own.weight_decay);
  }
  return own;
}

std::vector<ParameterSettings> settings_of(const std::vector<Parameter*>& parameters, const OptimizerOptions& options) {
  std::vector<ParameterSettings> settings;
  for (const Parameter* parameter : parameters) settings.push_back(settings_of(parameter->description(), options));
  return settings;
}

SettingsByParameter settings_by_parameter(const std::vector<Parameter*>& parameters, const OptimizerOptions& options) {
  const std::vector<ParameterSettings> settings = settings_of(parameters, options);
  SettingsByParameter found;
  for (std::size_t i = 0; i < parameters.size(); ++i) found[parameters[i]] = settings[i];
  return found;
}

}  // namespace lockstep
