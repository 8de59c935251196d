// What an evaluation measures, under the names that manifests have, and which of it decides what the best is.
#pragma once

#include "config/train_config.hpp"
#include "report/record.hpp"
#include "store/manifest.hpp"
#include "store/retention.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// What an evaluation measured, under the names that manifests have, each with the direction that is better: for the
/// metric of checkpoint.best_metric the one that is asked for. `set` is what its metrics are named after, "validation".
/// What is not finite is left out. Local.
std::vector<Metric> metrics_of(const EvalRecord& evaluation, const CheckpointOptions& options, const std::string& set);
/// What checkpoint.best_metric and checkpoint.best_direction say of the set that decides; `higher` is there. Local.
BestBy best_by(const CheckpointOptions& options, const std::string& set);

}  // namespace lockstep
