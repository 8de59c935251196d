// The evaluations of a run with the least loss. They are kept as a document of each checkpoint, not as state: no step
// depends on how often a run was evaluated.
#pragma once

#include "store/manifest.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct BestEvaluation {
  std::int64_t step = 0;
  double loss = 0;
};

/// The least first, of equal ones the earlier; ten at most, whether checkpoints of these steps are left or not.
using BestEvaluations = std::vector<BestEvaluation>;

/// Takes an evaluation in, in place of one of the same step. Local.
void rank_evaluation(BestEvaluations& best, const BestEvaluation& evaluation);

inline constexpr const char* best_evaluations_document = "best_evaluations";
std::string document_of(const BestEvaluations& best);
/// Those that a checkpoint carries; none without the document. Throws Error(input) if it is malformed. Local.
BestEvaluations best_evaluations_of(const Manifest& manifest);

}  // namespace lockstep
