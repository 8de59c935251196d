#include "train/run_evaluations.hpp"

#include "base/text.hpp"
#include "base/words.hpp"
#include "train/early_stop.hpp"
#include "train/evaluated_metrics.hpp"
#include "train/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

RunEvaluations::RunEvaluations(const LoopParts& parts, RunJournal& journal,
                               std::function<void(lockstep_event, const char*)> tell)
    : parts_(parts), journal_(journal), tell_(std::move(tell)) {}

void RunEvaluations::measure() {
  TrainState& now = parts_.train_state;
  const std::vector<EvaluationPlan>& sets = parts_.plan.evaluations;
  parts_.session.enter(Phase::evaluation, now.step);
  for (const EvaluationPlan& evaluation : sets)
    if (const auto& stream = evaluation.set.stream) parts_.verifier.use(*stream, 0, stream->tokens());
  forget_incomparable_best();
  std::vector<EvalRecord> records;
  measured_.clear();
  for (const EvaluationPlan& evaluation : sets) {
    records.push_back(evaluate(evaluation, now.step));
    std::ranges::copy(metrics_of(records.back(), parts_.config.checkpoint, evaluation.metrics),
                      std::back_inserter(measured_));
  }
  EvalRecord& deciding = records[parts_.plan.deciding];
  now.eval_loss = std::isfinite(deciding.loss) ? std::optional(deciding.loss) : std::nullopt;
  if (now.eval_loss) measured_step_ = now.step;
  deciding.best = take_evaluation();
  for (const EvalRecord& record : records) tell_of(record);
  count_for_patience();
}

void RunEvaluations::measure_best(std::int64_t step) {
  for (std::size_t i = 0; i < parts_.plan.evaluations.size(); ++i) {
    EvalRecord record = evaluate(parts_.plan.evaluations[i], step);
    if (i == parts_.plan.deciding) {
      record.best = true;
      parts_.train_state.eval_loss = record.loss;
    }
    tell_of(record);
  }
}

EvalRecord RunEvaluations::evaluate(const EvaluationPlan& evaluation, std::int64_t step) {
  parts_.session.enter(Phase::evaluation, step);
  return lockstep::evaluate(parts_.engine, parts_.config, parts_.plan, evaluation, parts_.session, step,
                            [this] { tell_(LOCKSTEP_EVALUATION_BATCH_END, nullptr); });
}

void RunEvaluations::count_for_patience() {
  TrainState& now = parts_.train_state;
  const BestBy& by = now.best_evaluations.by;
  const auto value = std::ranges::find(measured_, by.metric, &Metric::name);
  count_evaluation(parts_.config.eval, by,
                   value == measured_.end() ? std::nullopt : std::optional<double>(value->value), now);
  if (!has_lost_patience(parts_.config.eval, now)) return;
  journal_.tell({.step = now.step,
                 .name = "patience_lost",
                 .message = fmt::format("{} was no better than {} in {}: the run is finished", by.metric,
                                        now.best_counted ? fmt::format("{:.4g}", *now.best_counted) : "before",
                                        counted(now.without_gain, "evaluation"))});
}

void RunEvaluations::tell_of(const EvalRecord& record) {
  journal_.evaluation(record);
  tell_(LOCKSTEP_EVALUATED, record.name.value_or(record.split).c_str());
  if (std::isfinite(record.loss)) return;
  journal_.warn({.step = record.step,
                 .name = "nonfinite_validation",
                 .message = fmt::format("{} loss {} is not finite", record.name.value_or("validation"), record.loss)});
}

bool RunEvaluations::take_evaluation() {
  TrainState& now = parts_.train_state;
  if (!now.eval_loss) return false;
  BestEvaluations& best = now.best_evaluations;
  const bool least_loss = !now.best_eval_loss || *now.eval_loss < *now.best_eval_loss;
  if (least_loss) now.best_eval_loss = now.eval_loss;
  const auto value = std::ranges::find(measured_, best.by.metric, &Metric::name);
  if (value == measured_.end()) return false;
  const bool is_best = best.by == BestEvaluations().by ? least_loss : is_better(best, value->value);
  rank_evaluation(best, {now.step, *now.eval_loss, value->value});
  return is_best;
}

void RunEvaluations::forget_incomparable_best() {
  TrainState& now = parts_.train_state;
  if (now.best_eval_loss && now.evaluation != parts_.plan.evaluation()) {
    journal_.warn({.step = now.step,
                   .name = "evaluation_changed",
                   .message = fmt::format("the best validation loss so far, {:.4f}, was measured on {}, but the "
                                          "evaluation now uses {}: the best loss is reset",
                                          *now.best_eval_loss,
                                          now.evaluation.empty() ? "samples of an earlier version" : now.evaluation,
                                          parts_.plan.evaluation()),
                   .loss = now.best_eval_loss});
    now.best_eval_loss.reset();
    now.best_evaluations.ranked.clear();
    now.best_counted.reset();
    now.without_gain = 0;
  }
  BestEvaluations& best = now.best_evaluations;
  if (const BestBy by = best_by(parts_.config.checkpoint, parts_.plan.deciding_metrics(parts_.config)); best.by != by) {
    if (!best.ranked.empty())
      journal_.warn(
          {.step = now.step,
           .name = "best_metric_changed",
           .message = fmt::format("the best evaluations so far had the {}, from now on they have the {}: the best "
                                  "value is reset; existing checkpoints are compared by their recorded metrics",
                                  to_text(best.by), to_text(by))},
          0);
    best = {by, {}};
    now.best_counted.reset();
    now.without_gain = 0;
  }
  now.evaluation = parts_.plan.evaluation();
}

}  // namespace lockstep
