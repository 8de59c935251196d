// The evaluations of a run: evaluates all sets at a step and ranks the result. A single evaluation:
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
  /// Calls `tell` for each event (plugin/lockstep_plugin.h) with the name of the set, or null between two batches. All
  /// arguments must outlive this object.
  RunEvaluations(const LoopParts& parts, RunJournal& journal, std::function<void(lockstep_event, const char*)> tell);

  /// Evaluates the present weights on all sets, and updates the loss, the best evaluations and the patience in the
  /// state of the run. Collective over the world.
  void measure();
  /// Evaluates the best weights of the run, those of `step`, and stores their loss in the state of the run. It changes
  /// neither the ranking nor the patience. Collective over the world.
  void measure_best(std::int64_t step);
  /// Returns the metrics of the last evaluation if it was at this step and its loss is finite, else null. Local; equal
  /// on all ranks.
  const std::vector<Metric>* measured_at(std::int64_t step) const {
    return step == measured_step_ ? &measured_ : nullptr;
  }

 private:
  EvalRecord evaluate(const EvaluationPlan& evaluation, std::int64_t step);
  void tell_of(const EvalRecord& record);
  /// Counts the present evaluation, whose metrics are in `measured_`; returns whether it is the best so far.
  bool take_evaluation();
  void count_for_patience();
  /// Clears the best evaluations if a resume has changed their dataset or metric.
  void forget_incomparable_best();

  LoopParts parts_;
  RunJournal& journal_;
  std::function<void(lockstep_event, const char*)> tell_;
  std::int64_t measured_step_ = -1;
  std::vector<Metric> measured_;
};

}  // namespace lockstep
