#include "config/fixed_options.hpp"

#include "base/json.hpp"
#include "config/interpret.hpp"
#include "config/option.hpp"

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

/// A configuration and the declaration that is bound to it.
struct Bound {
  TrainConfig config;
  Declaration declaration;
  explicit Bound(const TrainConfig& values) : config(values) { describe(declaration, config); }
};

/// Options that several of say one thing together, which is compared as it is resolved.
const std::set<std::string> resolved_options{"train.global_batch", "schedule.warmup_steps", "schedule.warmup_ratio",
                                             "schedule.decay_steps", "schedule.decay_ratio"};

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
  apply(saved.declaration, document, problems);
  if (!problems.empty()) {
    const Problems::Entry& first = problems.entries().front();
    fail(ExitCode::usage, "{}: {} is not a configuration that this version of train wrote",
         first.where.empty() ? run.origin : first.where, first.text);
  }
  std::vector<Difference> differences;
  for (const Option& option : current.declaration.options()) {
    if (!option.facts.fixed_on_resume || resolved_options.contains(option.path)) continue;
    const Json before = saved.declaration.find(option.path)->get();
    const Json after = option.get();
    if (before != after) differences.push_back({option.path, to_yaml(before), to_yaml(after)});
  }
  const ResolvedRun then = run.resolved ? *run.resolved : resolved_of_options(saved.config, run.origin);
  const auto compare = [&](const std::string& option, std::int64_t before, std::int64_t after) {
    if (before != after) differences.push_back({option, std::to_string(before), std::to_string(after)});
  };
  compare("train.global_batch", then.global_batch, resolved.global_batch);
  compare("schedule.warmup_steps", then.length.warmup_steps, resolved.length.warmup_steps);
  // A decay that ends with the run moves as the run is extended: then its learning rates would not be what they were.
  if (now.schedule.name != ScheduleName::constant)
    compare("schedule.decay_steps", then.length.decay_steps, resolved.length.decay_steps);
  return differences;
}

}  // namespace lockstep
