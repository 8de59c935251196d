// The evaluations of a run: all its sets at a step, and which was the best. What one evaluation does:
// train/evaluation.hpp.
#pragma once

#include "plugin/lockstep_plugin.h"
#include "report/record.hpp"
#include "store/manifest.hpp"
#include "train/loop_parts.hpp"
#include "train/run_journal.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

class RunEvaluations {
 public:
  /// `tell` hears of each event (plugin/lockstep_plugin.h) with the name of the set, which is null between two batches.
  /// All of it outlives this.
  RunEvaluations(const LoopParts& parts, RunJournal& journal, std::function<void(lockstep_event, const char*)> tell);

  /// Evaluates the weights of now on all sets and counts what came of it: what the state of the run says of its loss,
  /// the best and the patience. Collective over the world.
  void measure();
  /// Evaluates weights that are those of `step`, the best of the run: no evaluation that counts. Collective over the
  /// world.
  void measure_best(std::int64_t step);
  /// What the last evaluation came to, if it was of this step and its loss is finite, else null. Local; the same on all
  /// ranks.
  const std::vector<Metric>* measured_at(std::int64_t step) const {
    return step == measured_step_ ? &measured_ : nullptr;
  }

 private:
  EvalRecord evaluate(const EvaluationPlan& evaluation, std::int64_t step);
  void tell_of(const EvalRecord& record);
  /// Counts the evaluation of now, of which `measured_` tells; returns whether it is the best so far.
  bool take_evaluation();
  void count_for_patience();
  /// What the best evaluations were measured on, or are ranked by, may have changed with a resume.
  void forget_incomparable_best();

  LoopParts parts_;
  RunJournal& journal_;
  std::function<void(lockstep_event, const char*)> tell_;
  std::int64_t measured_step_ = -1;
  std::vector<Metric> measured_;
};

}  // namespace lockstep
