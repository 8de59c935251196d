// The number of samples in a step: train.global_batch, or, at the first start of a run, the product of
// train.micro_batch, train.accumulation, parallel.micro_batches if set, and the number of data-parallel ranks.
// Checkpoints store it for starts on other ranks (train/kept_run.hpp). Its division into micro-batches:
// program/batch_plan.hpp.
#pragma once

#include "config/run_length.hpp"
#include "program/batch_plan.hpp"

#include <optional>
#include <utility>

namespace lockstep {

/// Returns the batch for `data_ranks` data-parallel ranks. If the options that set it are unchanged, the batch of
/// `kept` stays on any number of ranks. Local, pure. Throws Error(usage) for a batch that cannot be divided, or if
/// those options give another batch than `kept` and checkpoint.allow_change does not permit it.
std::pair<BatchPlan, PassPlan> plan_run_batch(const TrainConfig& config, std::int64_t data_ranks,
                                              const std::optional<ResolvedRun>& kept);

/// Returns the batch of --eval-only. Its micro-batch is eval.micro_batch, train.micro_batch, the samples of a rank in a
/// step, or one sample. A rank may have no sample of a global batch. Pure. Throws Error(usage) if eval.batches is set
/// and neither the options nor `kept` say how many samples a batch has.
BatchPlan plan_evaluation_batch(const TrainConfig& config, std::int64_t data_ranks,
                                const std::optional<ResolvedRun>& kept);

}  // namespace lockstep
