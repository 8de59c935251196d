#include "train/evaluation.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

/// The batch with no label that counts: what a rank computes when its windows ran out.
Batch muted(Batch batch) {
  std::ranges::fill(batch.labels, ignored_label);
  batch.valid_tokens = 0;
  return batch;
}

}  // namespace

EvalRecord evaluate(Engine& engine, const TrainConfig& config, const TrainPlan& plan, const EvaluationPlan& evaluation,
                    Session& session, std::int64_t step, const std::function<void()>& after_batch) {
  const double start_s = monotonic_seconds();
  const EvaluationDataLoader loader(*evaluation.set.samples,
                                    plan.loader(config, SampleUse::evaluation, session.world().rank()),
                                    evaluation.set.batches);
  const std::int64_t chunk = plan.programs.eval.micro_batches;
  EvaluationOutcome total;
  for (std::int64_t round = 0; round < evaluation.rounds; ++round) {
    std::vector<Batch> batches;
    for (std::int64_t i = round * chunk; i < (round + 1) * chunk; ++i) {
      batches.push_back(i < loader.micro_batches() ? loader.batch(i) : muted(loader.batch(0)));
    }
    const EvaluationOutcome part = engine.evaluate(batches, step);
    total.loss_sum += part.loss_sum;
    total.tokens += part.tokens;
    total.correct += part.correct;
    after_batch();
  }
  const double loss = total.loss_sum / static_cast<double>(total.tokens);
  return {.step = step,
          .name = names_evaluations(config) ? std::optional(evaluation.set.name) : std::nullopt,
          .split = evaluation.set.dataset ? std::string(name_of(evaluation.set.split)) : DatasetChoice::dummy,
          .loss = loss,
          .perplexity = std::exp(loss),
          .accuracy = static_cast<double>(total.correct) / static_cast<double>(total.tokens),
          .tokens = total.tokens,
          .eval_ms = (monotonic_seconds() - start_s) * 1e3,
          .best = {}};
}

}  // namespace lockstep
