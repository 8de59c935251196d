#include "config/optimizer_check.hpp"

#include "base/text.hpp"
#include "config/option_rules.hpp"
#include "config/train_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

/// An option that some update rules read.
struct RuleOption {
  std::string name;  // in the section optimizer
  std::vector<OptimizerName> rules;
  const char* instead;                              // what other update rules use in its place
  bool (*changed)(const OptimizerOptions&);         // whether it differs from its default
  bool (*is_set)(const OptimizerGroup&) = nullptr;  // of a group; null if groups have none
};

const std::vector<RuleOption>& rule_options() {
  using enum OptimizerName;
  static const OptimizerOptions plain;
  static const std::vector<RuleOption> rules{
      {"momentum",
       {sgd},
       "adamw and lion use optimizer.betas, muon uses optimizer.muon_momentum",
       [](const OptimizerOptions& options) { return options.momentum != plain.momentum; },
       [](const OptimizerGroup& group) { return group.momentum.has_value(); }},
      {"nesterov",
       {sgd},
       "muon uses optimizer.muon_nesterov",
       [](const OptimizerOptions& options) { return options.nesterov; },
       [](const OptimizerGroup& group) { return group.nesterov.has_value(); }},
      {"betas",
       {adamw, lion},
       "sgd uses optimizer.momentum, adafactor uses optimizer.adafactor_decay",
       [](const OptimizerOptions& options) { return options.betas != plain.betas; },
       [](const OptimizerGroup& group) { return group.betas.has_value(); }},
      {"eps",
       {adamw},
       "adafactor uses optimizer.adafactor_eps, other optimizers need none",
       [](const OptimizerOptions& options) { return options.eps != plain.eps; },
       [](const OptimizerGroup& group) { return group.eps.has_value(); }},
      {"state_dtype",
       {adamw, lion, muon},
       "sgd and adafactor keep their state in the type of the weights",
       [](const OptimizerOptions& options) { return options.state_dtype != plain.state_dtype; },
       [](const OptimizerGroup& group) { return group.state_dtype.has_value(); }},
      {"muon_lr",
       {muon},
       "other optimizers use optimizer.lr",
       [](const OptimizerOptions& options) { return options.muon_lr.has_value(); }},
      {"muon_momentum",
       {muon},
       "sgd uses optimizer.momentum",
       [](const OptimizerOptions& options) { return options.muon_momentum != plain.muon_momentum; },
       [](const OptimizerGroup& group) { return group.muon_momentum.has_value(); }},
      {"muon_nesterov",
       {muon},
       "sgd uses optimizer.nesterov",
       [](const OptimizerOptions& options) { return options.muon_nesterov != plain.muon_nesterov; },
       [](const OptimizerGroup& group) { return group.muon_nesterov.has_value(); }},
      {"muon_steps",
       {muon},
       "other optimizers do not orthogonalize updates",
       [](const OptimizerOptions& options) { return options.muon_steps != plain.muon_steps; },
       [](const OptimizerGroup& group) { return group.muon_steps.has_value(); }},
      {"muon_adjust",
       {muon},
       "other optimizers do not orthogonalize updates",
       [](const OptimizerOptions& options) { return options.muon_adjust != plain.muon_adjust; },
       [](const OptimizerGroup& group) { return group.muon_adjust.has_value(); }},
      {"adafactor_decay",
       {adafactor},
       "adamw uses the second of optimizer.betas",
       [](const OptimizerOptions& options) { return options.adafactor_decay != plain.adafactor_decay; },
       [](const OptimizerGroup& group) { return group.adafactor_decay.has_value(); }},
      {"adafactor_eps",
       {adafactor},
       "adamw uses optimizer.eps",
       [](const OptimizerOptions& options) { return options.adafactor_eps != plain.adafactor_eps; },
       [](const OptimizerGroup& group) { return group.adafactor_eps.has_value(); }},
      {"adafactor_clip",
       {adafactor},
       "gradients are clipped by optimizer.clip_norm",
       [](const OptimizerOptions& options) { return options.adafactor_clip != plain.adafactor_clip; },
       [](const OptimizerGroup& group) { return group.adafactor_clip.has_value(); }},
      {"adafactor_scale",
       {adafactor},
       "other optimizers use optimizer.lr",
       [](const OptimizerOptions& options) { return options.adafactor_scale; },
       [](const OptimizerGroup& group) { return group.adafactor_scale.has_value(); }},
      {"adafactor_relative_step",
       {adafactor},
       "other optimizers follow schedule.name",
       [](const OptimizerOptions& options) { return options.adafactor_relative_step; },
       [](const OptimizerGroup& group) { return group.adafactor_relative_step.has_value(); }},
      {"adafactor_momentum",
       {adafactor},
       "sgd uses optimizer.momentum, adamw uses the first of optimizer.betas",
       [](const OptimizerOptions& options) { return options.adafactor_momentum != plain.adafactor_momentum; },
       [](const OptimizerGroup& group) { return group.adafactor_momentum.has_value(); }},
  };
  return rules;
}

std::string names_of(const std::vector<OptimizerName>& rules) {
  std::vector<std::string> names;
  for (const auto& [rule, name, phrase] : choices_of(OptimizerName{}))
    if (std::ranges::find(rules, rule) != rules.end()) names.emplace_back(name);
  return join(names, ", ");
}

/// Refuses options that no update rule of the run, or of the group that sets them, reads.
void check_update_rules(const OptimizerOptions& optimizer, Problems& problems) {
  using enum OptimizerName;
  std::set<OptimizerName> own{optimizer.name};
  if (optimizer.name == muon) own.insert(adamw);
  std::set<OptimizerName> all = own;
  for (const auto& [name, group] : optimizer.groups)
    if (group.name) all.insert(*group.name);
  const auto is_read = [](const RuleOption& option, const std::set<OptimizerName>& rules) {
    return std::ranges::any_of(option.rules, [&](OptimizerName rule) { return rules.contains(rule); });
  };
  for (const RuleOption& option : rule_options()) {
    const std::string path = "optimizer." + option.name;
    if (option.changed(optimizer) && !is_read(option, all))
      problems.add({"optimizer.name", path}, fmt::format("{} applies only to optimizer.name {}; {}", path,
                                                         names_of(option.rules), option.instead));
    for (const auto& [name, group] : optimizer.groups) {
      if (option.is_set == nullptr || !option.is_set(group)) continue;
      if (!is_read(option, group.name ? std::set{*group.name} : own))
        problems.add(
            {"optimizer.groups", "optimizer.name"},
            fmt::format("optimizer.groups.{}.{} applies only to {}, but the group uses another optimizer: leave "
                        "it out, or set optimizer.groups.{}.optimizer",
                        name, option.name, names_of(option.rules), name));
    }
  }
}

/// Refuses decay rates and momenta of 1. `path` is "optimizer" or that of a group.
void check_rule(const UpdateRule& rule, const std::string& option, const std::string& path, Problems& problems) {
  for (const double beta : rule.betas) {
    if (beta >= 1)
      problems.add({option + (option == "optimizer" ? ".betas" : "")},
                   fmt::format("with a decay rate of 1 a moment never changes: {}.betas must be below 1", path));
  }
  if (rule.momentum >= 1)
    problems.add({option + (option == "optimizer" ? ".momentum" : "")},
                 fmt::format("with a momentum of 1 no step is ever forgotten: {}.momentum must be below 1", path));
  if (rule.muon_momentum >= 1)
    problems.add({option + (option == "optimizer" ? ".muon_momentum" : "")},
                 fmt::format("with a momentum of 1 no gradient ever enters: {}.muon_momentum must be below 1", path));
  if (rule.adafactor_momentum >= 1)
    problems.add(
        {option + (option == "optimizer" ? ".adafactor_momentum" : "")},
        fmt::format("with a momentum of 1 no gradient ever enters: {}.adafactor_momentum must be below 1", path));
}

/// Rules for each group by itself.
void check_groups(const OptimizerOptions& optimizer, Problems& problems) {
  const auto problem = [&](const std::string& text) { problems.add({"optimizer.groups"}, text); };
  for (const auto& [name, group] : optimizer.groups) {
    const std::string path = "optimizer.groups." + name;
    const UpdateRule rule = changed(optimizer, group);
    if (group.betas || group.momentum || group.muon_momentum || group.adafactor_momentum)
      check_rule(rule, "optimizer.groups", path, problems);
    if (rule.nesterov && rule.momentum == 0 && (group.nesterov || group.momentum))
      problem(fmt::format("{0}.nesterov needs momentum: set {0}.momentum", path));
    if (group.lr && group.lr_scale != 1)
      problem(fmt::format("{0}.lr and {0}.lr_scale both set the learning rate: leave one out", path));
    if (group.lr && optimizer.lr == 0)
      problems.add(
          {"optimizer.groups", "optimizer.lr"},
          fmt::format("the schedule scales {}.lr together with optimizer.lr, so optimizer.lr must not be 0", path));
  }
}

const std::vector<Rule>& optimizer_rules() {
  static const std::vector<Rule> all{
      {{"optimizer.nesterov", "optimizer.momentum"},
       [](const TrainConfig& config) { return config.optimizer.nesterov && config.optimizer.momentum == 0; },
       "optimizer.nesterov needs momentum: set optimizer.momentum, for example 0.9"},
      {{"optimizer.muon_lr", "optimizer.lr"},
       [](const TrainConfig& config) { return config.optimizer.muon_lr && config.optimizer.lr == 0; },
       "the schedule scales optimizer.muon_lr together with optimizer.lr, so optimizer.lr must not be 0"},
      {{"optimizer.in_backward", "optimizer.clip_norm"},
       [](const TrainConfig& config) { return config.optimizer.in_backward && config.optimizer.clip_norm; },
       "optimizer.in_backward updates weights before the norm of all gradients is known, which optimizer.clip_norm "
       "needs: add --optimizer.clip_norm null"},
      {{"optimizer.in_backward", "train.on_nonfinite"},
       [](const TrainConfig& config) {
         return config.optimizer.in_backward && config.train.on_nonfinite == OnNonfinite::skip;
       },
       "optimizer.in_backward updates weights before it is known whether all gradients are finite, so that "
       "train.on_nonfinite cannot skip the step: add --train.on_nonfinite stop"},
  };
  return all;
}

}  // namespace

void check_optimizer(const TrainConfig& config, Problems& problems) {
  check_rule(config.optimizer, "optimizer", "optimizer", problems);
  check_update_rules(config.optimizer, problems);
  check_groups(config.optimizer, problems);
  check_rules(optimizer_rules(), config, problems);
}

}  // namespace lockstep
