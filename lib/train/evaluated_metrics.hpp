// The metrics of an evaluation under the names that manifests use, and the one that decides which checkpoint is the
// best.
#pragma once

#include "config/train_config.hpp"
#include "report/record.hpp"
#include "store/manifest.hpp"
#include "store/retention.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Returns the metrics of an evaluation under the names that manifests use, each with its better direction; for the
/// metric of checkpoint.best_metric the configured direction. `set` is the prefix of the names, such as "validation".
/// Values that are not finite are omitted. Local.
std::vector<Metric> metrics_of(const EvalRecord& evaluation, const CheckpointOptions& options, const std::string& set);
/// Returns the criterion of checkpoint.best_metric and checkpoint.best_direction for the deciding set, with `higher`
/// set. Local.
BestBy best_by(const CheckpointOptions& options, const std::string& set);

}  // namespace lockstep
