// Computes the loss and other metrics over a set. Every rank computes its share; all ranks get the result. The
// evaluations of a run: train/run_evaluations.hpp.
#pragma once

#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "report/record.hpp"
#include "train/train_plan.hpp"

#include <cstdint>
#include <functional>

namespace lockstep {

/// Returns the metrics over a set of the plan (or the configured number of its batches), weighted by tokens. The model
/// is the one after `step` steps. `best` is not set. Each rank calls `after_batch` after each execution of the
/// evaluation program. Collective over the world.
EvalRecord evaluate(Engine& engine, const TrainConfig& config, const TrainPlan& plan, const EvaluationPlan& evaluation,
                    Session& session, std::int64_t step, const std::function<void()>& after_batch);

}  // namespace lockstep
