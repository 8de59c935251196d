// The best evaluations of a run, and what makes them so. They are kept as a document of each checkpoint, not as state:
// no step depends on how often a run was evaluated. What is measured: train/evaluated_metrics.hpp.
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

/// What the run of a folder ranks its evaluations by, as its newest checkpoint with some tells. Local. Throws
/// Error(storage) where the folder cannot be looked at.
BestBy metric_of_run(const Path& run);

}  // namespace lockstep
