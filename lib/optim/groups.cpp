#include "optim/groups.hpp"

#include "base/error.hpp"
#include "optim/muon.hpp"
#include "options/suggestion.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

/// Patterns of the options, checked against the names of a model.
class PatternCheck {
 public:
  PatternCheck(const std::vector<std::string>& names, Unmatched unmatched) : names_(names), unmatched_(unmatched) {}

  void look(const NamePattern& pattern, const std::string& option) {
    if (std::ranges::any_of(names_, [&](const std::string& name) { return pattern.matches(name); })) return;
    const std::string says = fmt::format("{}: pattern '{}' matches none of the model's {} parameters", option,
                                         pattern.text(), names_.size());
    const auto near = suggested_pattern(pattern.text(), names_);
    const std::string meant = near ? fmt::format("did you mean '{}'?", *near) : "";
    if (unmatched_ == Unmatched::warn)
      return warnings_.push_back(fmt::format("{}; it has no effect{}{}", says, near ? "; " : "", meant));
    const std::string example = names_.empty() ? std::string() : fmt::format("; the first is '{}'", names_.front());
    throw Error(
        ExitCode::usage, says,
        fmt::format("{}{}patterns are searched for in Hugging Face names{}; --optimizer.unmatched warn only warns",
                    meant, near ? " " : "", example));
  }
  std::vector<std::string> warnings() { return std::move(warnings_); }

 private:
  const std::vector<std::string>& names_;
  Unmatched unmatched_;
  std::vector<std::string> warnings_;
};

double own_decay(const LogicalTensor& tensor, const OptimizerOptions& options) {
  const bool excluded = std::ranges::any_of(options.decay_exclude,
                                            [&](const NamePattern& pattern) { return pattern.matches(tensor.name); });
  return excluded || (options.decay == Decay::matrices && tensor.shape.size() < 2) ? 0 : options.weight_decay;
}

}  // namespace

GroupRemarks check_groups(const std::vector<std::string>& names, const OptimizerOptions& options) {
  PatternCheck check(names, options.unmatched);
  for (const auto& [name, group] : options.groups) check.look(group.match, "optimizer.groups." + name);
  for (const NamePattern& pattern : options.frozen) check.look(pattern, "optimizer.frozen");
  for (const NamePattern& pattern : options.decay_exclude) check.look(pattern, "optimizer.decay_exclude");
  GroupRemarks remarks{.notes = {}, .warnings = check.warnings()};
  std::vector<std::string> left = names;
  for (const auto& [group_name, group] : options.groups) {
    const auto matches = [&match = group.match](const std::string& name) { return match.matches(name); };
    if (std::erase_if(left, matches) == 0 && std::ranges::any_of(names, matches))
      remarks.notes.push_back(
          fmt::format("optimizer.groups.{} has no effect: earlier groups take all its tensors", group_name));
  }
  return remarks;
}

const std::pair<std::string, OptimizerGroup>* group_of(const std::string& name, const OptimizerOptions& options) {
  const auto group =
      std::ranges::find_if(options.groups, [&](const auto& each) { return each.second.match.matches(name); });
  return group == options.groups.end() ? nullptr : &*group;
}

ParameterSettings settings_of(const LogicalTensor& tensor, const OptimizerOptions& options) {
  ParameterSettings own{.lr_scale = 1, .weight_decay = own_decay(tensor, options), .rule = options};
  if (own.rule.name == OptimizerName::muon && !is_hidden_matrix(tensor)) own.rule.name = OptimizerName::adamw;
  const auto* const group = group_of(tensor.name, options);
  if (group != nullptr) own.rule = changed(own.rule, group->second);
  own.rule.factored = own.rule.name == OptimizerName::adafactor && is_matrix(tensor);
  if (own.rule.name == OptimizerName::muon && tensor.alias_of.empty() && !is_matrix(tensor))
    throw Error(ExitCode::usage,
                fmt::format("optimizer.groups.{}: '{}' assigns the tensor {} to muon, but it is not a matrix",
                            group->first, group->second.match.text(), tensor.name),
                "muon updates only matrices: use a narrower pattern");
  double peak = own.rule.name == OptimizerName::muon ? options.muon_lr.value_or(options.lr) : options.lr;
  if (group != nullptr) {
    peak = group->second.lr.value_or(peak);
    own.lr_scale = group->second.lr_scale;
    own.weight_decay = group->second.weight_decay.value_or(own.weight_decay);
  }
  if (peak != options.lr) own.lr_scale *= peak / options.lr;
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
