#include "optim/groups.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace lockstep {

namespace {

void require_match(const NamePattern& pattern, const std::vector<Parameter*>& parameters, std::string_view option) {
  const auto matches = [&](const Parameter* p) { return pattern.matches(p->name()); };
  if (std::any_of(parameters.begin(), parameters.end(), matches)) return;
  const std::string example =
      parameters.empty() ? std::string() : fmt::format("; the first is '{}'", parameters.front()->name());
  throw Error(ExitCode::usage,
              fmt::format("{}: pattern '{}' matches none of the model's {} parameters", option, pattern.text(),
                          parameters.size()),
              fmt::format("patterns are searched for in Hugging Face names{}", example));
}

double own_decay(const Parameter& parameter, const OptimizerOptions& options) {
  const bool excluded = std::any_of(options.decay_exclude.begin(), options.decay_exclude.end(),
                                    [&](const NamePattern& pattern) { return pattern.matches(parameter.name()); });
  return excluded || (options.decay == Decay::matrices && !parameter.decays()) ? 0 : options.weight_decay;
}

}  // namespace

std::vector<ParameterSettings> settings_of(const std::vector<Parameter*>& parameters, const OptimizerOptions& options) {
  for (const OptimizerGroup& group : options.groups) require_match(group.match, parameters, "optimizer.groups");
  for (const NamePattern& pattern : options.decay_exclude)
    require_match(pattern, parameters, "optimizer.decay_exclude");
  std::vector<ParameterSettings> settings;
  for (const Parameter* parameter : parameters) {
    const auto group = std::find_if(options.groups.begin(), options.groups.end(),
                                    [&](const OptimizerGroup& g) { return g.match.matches(parameter->name()); });
    if (group == options.groups.end()) {
      settings.push_back({1, own_decay(*parameter, options)});
    } else {
      settings.push_back({group->lr_scale, group->weight_decay.value_or(own_decay(*parameter, options))});
    }
  }
  return settings;
}

}  // namespace lockstep
