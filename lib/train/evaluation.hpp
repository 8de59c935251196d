// The loss over a validation split: every rank computes its share, all ranks know the result.
#pragma once

#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "train/train_plan.hpp"

namespace lockstep {

/// Nats a token over the split (or over eval.batches of it), weighted by tokens. Collective over the world.
EvaluationOutcome evaluate(Engine& engine, const TrainConfig& config, const TrainPlan& plan, Session& session,
                           std::int64_t step);

}  // namespace lockstep
