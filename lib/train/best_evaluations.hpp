// The best evaluations of a run, and what makes them so. They are kept as a document of each checkpoint, not as state:
// no step depends on how often a run was evaluated.
#pragma once

#include "config/train_config.hpp"
#include "report/record.hpp"
#include "store/manifest.hpp"
#include "store/retention.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What an evaluation measured, under the names that manifests have, each with the direction that is better: for the
/// metric of checkpoint.best_metric the one that is asked for. `set` is what its metrics are named after, "validation".
/// What is not finite is left out. Local.
std::vector<Metric> metrics_of(const EvalRecord& evaluation, const CheckpointOptions& options, const std::string& set);
/// What checkpoint.best_metric and checkpoint.best_direction say of the set that decides; `higher` is there. Local.
BestBy best_by(const CheckpointOptions& options, const std::string& set);

std::string to_text(const BestBy& by);  // "lowest validation_loss"

struct BestEvaluation {
  std::int64_t step = 0;
  double loss = 0;
  double value = 0;  // of what they are ranked by
};

struct BestEvaluations {
  BestBy by = {"validation_loss", false};
  /// The best first, of equal ones the earlier; ten at most, whether checkpoints of these steps are left or not.
  std::vector<BestEvaluation> ranked = {};
};

/// Takes an evaluation in, in place of one of the same step. Local.
void rank_evaluation(BestEvaluations& best, const BestEvaluation& evaluation);
/// Whether the value is better than all of them, by what they are ranked by. Local.
bool is_better(const BestEvaluations& best, double value);

inline constexpr const char* best_evaluations_document = "best_evaluations";
std::string document_of(const BestEvaluations& best);
/// Those that a checkpoint carries; none without the document. Throws Error(input) if it is malformed. Local.
BestEvaluations best_evaluations_of(const Manifest& manifest);

}  // namespace lockstep
