#include "train/cadence_change.hpp"

#include "base/error.hpp"
#include "options/problems.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {

namespace {

struct CadenceOption {
  const char* name;
  Cadence (*of)(const TrainConfig&);
  void (*set)(TrainConfig&, const Cadence&);
};

constexpr std::array<CadenceOption, 4> known_options{
    {{"log.every", [](const TrainConfig& config) { return config.log.every; },
      [](TrainConfig& config, const Cadence& every) { config.log.every = every; }},
     {"log.statistics_every",
      [](const TrainConfig& config) { return config.log.statistics_every.value_or(config.log.every); },
      [](TrainConfig& config, const Cadence& every) { config.log.statistics_every = every; }},
     {"eval.every", [](const TrainConfig& config) { return config.eval.every; },
      [](TrainConfig& config, const Cadence& every) { config.eval.every = every; }},
     {"checkpoint.every", [](const TrainConfig& config) { return config.checkpoint.every; },
      [](TrainConfig& config, const Cadence& every) { config.checkpoint.every = every; }}}};

/// What a configuration has against itself that it had not before.
std::vector<std::string> new_problems(const TrainConfig& before, const TrainConfig& after) {
  Problems old, found;
  check(before, old);
  check(after, found);
  std::vector<std::string> texts;
  for (const Problems::Entry& entry : found.entries())
    if (std::ranges::find(old.entries(), entry.text, &Problems::Entry::text) == old.entries().end())
      texts.push_back(entry.text);
  return texts;
}

}  // namespace

std::vector<std::string> cadence_options() {
  std::vector<std::string> names;
  for (const CadenceOption& option : known_options) names.emplace_back(option.name);
  return names;
}

std::string change_cadence(TrainConfig& config, const TrainPlan& plan, const StopChannels::Change& change) {
  const auto option =
      std::ranges::find_if(known_options, [&](const auto& known) { return change.option == known.name; });
  invariant(option != known_options.end(), "the control file changes only options for intervals");
  TrainConfig changed = config;
  option->set(changed, Cadence::parse(change.value));
  if (changed.eval.every && plan.evaluations.empty())
    fail(ExitCode::usage,
         "there is nothing to evaluate: no evaluation was configured at this start, or it has no data");
  if (const std::vector<std::string> texts = new_problems(config, changed); !texts.empty())
    throw Error(ExitCode::usage, texts.front());
  std::string said =
      fmt::format("{}: changed from {} to {}", change.option, option->of(config).text(), option->of(changed).text());
  config = std::move(changed);
  return said;
}

}  // namespace lockstep
