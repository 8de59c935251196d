// Samples of a step: those of train.global_batch, or what train.micro_batch and train.accumulation make with the ranks
// that share the data at the first start of a run, which its checkpoints keep for starts on others
// (train/kept_run.hpp). How they are divided: program/batch_plan.hpp.
#pragma once

#include "config/run_length.hpp"
#include "program/batch_plan.hpp"

#include <optional>
#include <utility>

namespace lockstep {

/// For so many ranks that share the data. Local, pure. Throws Error(usage) for a batch that cannot be divided, or is
/// another than that of `kept`.
std::pair<BatchPlan, PassPlan> plan_run_batch(const TrainConfig& config, std::int64_t data_ranks,
                                              const std::optional<ResolvedRun>& kept);

}  // namespace lockstep
