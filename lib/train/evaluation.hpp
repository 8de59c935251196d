// The loss and what else is measured over a set that is evaluated: every rank computes its share, all ranks know the
// result.
#pragma once

#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "report/record.hpp"
#include "train/train_plan.hpp"

#include <cstdint>
#include <functional>

namespace lockstep {

/// The loss over a set of the plan (or over so many batches of it), weighted by tokens, of the model as it is after
/// `step` steps; whether it is the best is not said. Each rank calls `after_batch` behind each pass. Collective over
/// the world.
EvalRecord evaluate(Engine& engine, const TrainConfig& config, const TrainPlan& plan, const EvaluationPlan& evaluation,
                    Session& session, std::int64_t step, const std::function<void()>& after_batch);

}  // namespace lockstep
