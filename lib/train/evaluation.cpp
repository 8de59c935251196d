#include "train/evaluation.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// The batch with no label that counts: what a rank computes when its windows ran out.
Batch muted(Batch batch) {
  std::ranges::fill(batch.labels, ignored_label);
  std::ranges::fill(batch.mask, std::uint8_t{0});
  batch.valid_tokens = 0;
  return batch;
}

}  // namespace

EvaluationOutcome evaluate(Engine& engine, const TrainConfig& config, const TrainPlan& plan, Session& session,
                           std::int64_t step) {
  const EvaluationDataLoader loader(*plan.validation, plan.loader(config, session.world().rank()));
  const std::int64_t chunk = plan.programs.eval.micro_batches;
  std::int64_t limit = loader.micro_batches();
  if (config.eval.batches) limit = std::min(limit, *config.eval.batches * plan.batch.accumulation);
  EvaluationOutcome total;
  for (std::int64_t round = 0; round < plan.evaluation_rounds; ++round) {
    std::vector<Batch> batches;
    for (std::int64_t i = round * chunk; i < (round + 1) * chunk; ++i) {
      batches.push_back(i < limit ? loader.batch(i) : muted(loader.batch(0)));
    }
    const EvaluationOutcome part = engine.evaluate(batches, step);
    total.loss_sum += part.loss_sum;
    total.tokens += part.tokens;
  }
  return total;
}

}  // namespace lockstep
