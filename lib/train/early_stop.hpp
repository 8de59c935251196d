// Early stopping: with eval.patience a run finishes before its last step when its evaluations no longer improve. The
// counts belong to the state of the run, so a resumed run ends at the same step.
#pragma once

#include "config/train_config.hpp"
#include "store/retention.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <optional>

namespace lockstep {

/// Counts an evaluation with this value of the metric `by`; not set: the value was not finite. It is better if it
/// improves on the best counted value by more than eval.min_gain (as in Keras; transformers compares with the best of
/// all). Pure.
void count_evaluation(const EvalOptions& options, const BestBy& by, std::optional<double> value, TrainState& state);

/// Returns whether the last eval.patience evaluations were no better. Pure.
bool has_lost_patience(const EvalOptions& options, const TrainState& state);

/// Returns whether the run has done all its steps, or ends early. Pure.
bool is_finished(const TrainConfig& config, const TrainPlan& plan, const TrainState& state);

}  // namespace lockstep
