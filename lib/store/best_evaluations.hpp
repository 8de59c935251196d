// The best evaluations of a run, and the metric that ranks them. They are a document in each checkpoint, not state,
// because no step depends on how often a run is evaluated. The metrics themselves: train/evaluated_metrics.hpp.
#pragma once

#include "store/manifest.hpp"
#include "store/retention.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

std::string to_text(const BestBy& by);  // "lowest validation_loss"

struct BestEvaluation {
  std::int64_t step = 0;
  double loss = 0;
  double value = 0;  // of the metric that ranks them
};

struct BestEvaluations {
  BestBy by = {"validation_loss", false};
  /// Best first, and the earlier one first if they are equal; at most ten, even if their checkpoints are gone.
  std::vector<BestEvaluation> ranked = {};
};

/// Inserts an evaluation; it replaces one of the same step. Local.
void rank_evaluation(BestEvaluations& best, const BestEvaluation& evaluation);
/// Returns whether the value is better than all of them, by the metric that ranks them. Local.
bool is_better(const BestEvaluations& best, double value);

inline constexpr const char* best_evaluations_document = "best_evaluations";
std::string document_of(const BestEvaluations& best);
/// Returns the evaluations in a checkpoint; none if it has no such document. Throws Error(input) if it is malformed.
/// Local.
BestEvaluations best_evaluations_of(const Manifest& manifest);

/// Returns the metric that ranks the evaluations of a run, from its newest checkpoint that has evaluations; otherwise
/// the default. Local. Throws Error(storage) if the folder cannot be read.
BestBy metric_of_run(const Path& run);

}  // namespace lockstep
