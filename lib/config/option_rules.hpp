// Combinations of options that are refused, as tables: which options, when, and why.
#pragma once

#include "config/train_config.hpp"
#include "options/problems.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct Rule {
  std::vector<std::string> options;  // the options concerned, by their dotted names
  bool (*is_broken)(const TrainConfig&);
  std::string reason;  // what the user reads: lower-case, no full stop
};

/// Adds a problem for each broken rule, in the order of the table. Local, pure.
inline void check_rules(const std::vector<Rule>& rules, const TrainConfig& config, Problems& problems) {
  for (const Rule& rule : rules)
    if (rule.is_broken(config)) problems.add(rule.options, rule.reason);
}

}  // namespace lockstep
