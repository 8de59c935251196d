#include "config/fixed_options.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "options/former_options.hpp"
#include "options/interpret.hpp"
#include "options/option.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// A configuration and the declaration that is bound to it.
struct Bound {
  TrainConfig config;
  Declaration declaration;
  explicit Bound(const TrainConfig& values) : config(values) { describe(declaration, config); }
};

/// The reason why checkpoint.allow_change cannot name it; empty: it can.
std::string refusal_of(const Declaration& declaration, const std::string& name) {
  if (const Option* const option = declaration.find(name)) {
    const OnResume& rule = option->facts.on_resume;
    if (!rule.never.empty()) return fmt::format("{} cannot change on resume: {}", name, rule.never);
    return rule.is_fixed() ? "" : fmt::format("{} may change on resume in any case", name);
  }
  const auto in_section = [&](const Option& one) { return one.path.starts_with(name + "."); };
  if (!std::ranges::any_of(declaration.options(), in_section))
    return fmt::format("there is no option and no section {}", name);
  const auto changeable = [&](const Option& one) {
    return in_section(one) && one.facts.on_resume.is_fixed() && one.facts.on_resume.never.empty();
  };
  if (std::ranges::any_of(declaration.options(), changeable)) return {};
  return fmt::format("no option of the section {} is fixed on resume", name);
}

/// What a run of an earlier version resolved, which said all of it in steps and samples.
ResolvedRun resolved_of_options(const TrainConfig& config, const std::string& origin) {
  if (!config.train.max_steps || !config.train.global_batch)
    fail(ExitCode::usage, "{}: the checkpoint does not tell how many steps the run has, or of how many samples",
         origin);
  return {*config.train.global_batch, {}, length_of(config, *config.train.max_steps)};
}

}  // namespace

std::vector<Difference> differing_fixed_options(const SavedRun& run, const TrainConfig& now,
                                                const ResolvedRun& resolved) {
  Problems problems;
  Bound saved{TrainConfig{}};
  Bound current{now};
  Node document = parse_yaml(run.config_yaml, run.origin, problems);
  std::erase_if(document.entries, [](const Node::Entry& entry) { return entry.key == "dialect"; });
  update_names(saved.declaration, document);
  apply(saved.declaration, document, problems);
  if (!problems.empty()) {
    const Problems::Entry& first = problems.entries().front();
    if (!saved.config.plugin.empty() && now.plugin.empty())
      fail(ExitCode::usage, "{}: {}; the run has plug-ins: add --plugin {}",
           first.where.empty() ? run.origin : first.where, first.text, join(saved.config.plugin, " --plugin "));
    fail(ExitCode::usage, "{}: {} is not a configuration that this version of train wrote",
         first.where.empty() ? run.origin : first.where, first.text);
  }
  std::vector<Difference> differences;
  for (const Option& option : current.declaration.options()) {
    if (option.facts.on_resume.compared != OnResume::Compared::as_written) continue;
    const Json before = saved.declaration.find(option.path)->get();
    const Json after = option.get();
    if (before != after) differences.push_back({option.path, to_yaml(before), to_yaml(after)});
  }
  const ResolvedRun then = run.resolved ? *run.resolved : resolved_of_options(saved.config, run.origin);
  const auto compare = [&](const std::string& option, std::int64_t before, std::int64_t after) {
    if (before != after) differences.push_back({option, std::to_string(before), std::to_string(after)});
  };
  compare("train.global_batch", then.global_batch, resolved.global_batch);
  const auto& set = saved.config.data.pad_to_multiple_of.set();
  if (const auto& padded = set ? set : then.pad_to_multiple_of; padded && resolved.pad_to_multiple_of)
    compare("data.pad_to_multiple_of", *padded, *resolved.pad_to_multiple_of);
  compare("schedule.warmup_steps", then.length.warmup_steps, resolved.length.warmup_steps);
  if (then.epoch_multiple && resolved.epoch_multiple)
    compare("samples of an epoch that are left by data.drop_last, a multiple", *then.epoch_multiple,
            *resolved.epoch_multiple);
  const ScheduleName schedule = now.schedule.name;
  const bool cools = schedule == ScheduleName::wsd || schedule == ScheduleName::infinite;
  const bool cooling = cools && run.step > std::min(steps_before_cooldown(schedule, then.length),
                                                    steps_before_cooldown(schedule, resolved.length));
  if (cooling) compare("schedule.cooldown_steps", then.length.cooldown_steps, resolved.length.cooldown_steps);
  if (cooling && schedule == ScheduleName::infinite)
    compare("train.max_steps", then.length.steps, resolved.length.steps);
  if (schedule == ScheduleName::constant || schedule == ScheduleName::inverse_sqrt) return differences;
  if (schedule == ScheduleName::wsd && !cooling) return differences;
  // A decay that ends with the run moves as the run is extended: then its learning rates would not be what they were.
  compare("schedule.decay_steps", then.length.decay_steps, resolved.length.decay_steps);
  return differences;
}

std::string digest_of_run(const TrainConfig& config) {
  const Bound bound(config);
  StreamHash hash;
  for (const Option& option : bound.declaration.options()) {
    const std::string& path = option.path;
    const bool makes_the_run = option.facts.on_resume.is_fixed() || path.starts_with("model.") ||
                               path.starts_with("data.") || path == "optimizer.frozen" || path == "checkpoint.resume";
    if (makes_the_run) hash.add(path + " " + to_text(option.get()) + "\n");
  }
  return to_hex(hash.digest());
}

void check_allowed_changes(const TrainConfig& config, Problems& problems) {
  const Bound bound(config);
  for (const std::string& name : config.checkpoint.allow_change)
    if (const std::string refusal = refusal_of(bound.declaration, name); !refusal.empty())
      problems.add({"checkpoint.allow_change"}, "checkpoint.allow_change: " + refusal);
}

bool may_change(const TrainConfig& config, const std::string& option) {
  const Bound bound(config);
  const Option* const compared = bound.declaration.find(option);
  if (compared != nullptr && !compared->facts.on_resume.never.empty()) return false;
  return std::ranges::any_of(config.checkpoint.allow_change, [&](const std::string& name) {
    const Option* const allowed = bound.declaration.find(name);
    return option == name || option.starts_with(name + ".") ||
           (allowed != nullptr && allowed->facts.on_resume.as == option);
  });
}

}  // namespace lockstep
