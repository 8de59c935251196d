// A run whose evaluations do not become better any more is finished before its last step, if eval.patience says so.
// What is counted belongs to the state of the run, so that a resumed one ends at the same step.
#pragma once

#include "config/train_config.hpp"
#include "store/retention.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <optional>

namespace lockstep {

/// Counts an evaluation that gave the metric of `by`; absent: it was not finite. It is better if it passes the best
/// that counted so by more than eval.min_gain (as Keras counts it; transformers compares with the best of all). Pure.
void count_evaluation(const EvalOptions& options, const BestBy& by, std::optional<double> value, TrainState& state);

/// Whether the last eval.patience evaluations were no better. Pure.
bool has_lost_patience(const EvalOptions& options, const TrainState& state);

/// Whether the run has done all its steps, or ends before. Pure.
bool is_finished(const TrainConfig& config, const TrainPlan& plan, const TrainState& state);

}  // namespace lockstep
