#include "train/run_batch.hpp"

#include "base/error.hpp"
#include "base/rounding.hpp"
#include "base/words.hpp"
#include "config/fixed_options.hpp"
#include "options/ranges.hpp"

#include <algorithm>

namespace lockstep {

BatchPlan plan_evaluation_batch(const TrainConfig& config, std::int64_t data_ranks,
                                const std::optional<ResolvedRun>& kept) {
  std::optional<std::int64_t> global = config.train.global_batch;
  if (const auto said = configured_samples_per_rank(config); !global && said) global = *said * data_ranks;
  if (!config.train.global_batch && kept) global = kept->global_batch;
  const bool counts_batches =
      config.eval.batches || std::ranges::any_of(config.eval.datasets, [](const EvaluationDataset& dataset) {
        return dataset.batches.has_value();
      });
  if (counts_batches && !global)
    throw Error(ExitCode::usage, "eval.batches counts global batches, but the number of samples in one is not set",
                "set train.global_batch, or leave eval.batches out to evaluate all samples");
  const std::int64_t share = global ? ceil_div(*global, data_ranks) : 1;
  const std::int64_t micro_batch = config.eval.micro_batch.value_or(config.train.micro_batch.value_or(share));
  return {.global_batch = global.value_or(micro_batch * data_ranks),
          .ranks = data_ranks,
          .micro_batch = micro_batch,
          .accumulation = 1};
}

std::pair<BatchPlan, PassPlan> plan_run_batch(const TrainConfig& config, std::int64_t data_ranks,
                                              const std::optional<ResolvedRun>& kept) {
  BatchRequest wishes{config.train.micro_batch, config.parallel.micro_batches, config.train.accumulation};
  if (config.train.global_batch) return plan_passes(*config.train.global_batch, data_ranks, wishes);
  const std::optional<std::int64_t> said = configured_samples_per_rank(config);
  invariant(said.has_value(), "the options determine the samples of a step");
  std::int64_t batch = *said * data_ranks;
  if (static_cast<double>(batch) > most_count)
    fail(ExitCode::usage, "a step of {} samples on each of {} is too large", *said, counted(data_ranks, "rank"));
  if (kept && kept->global_batch != batch) {
    if (kept->configured_samples_per_rank != said && may_change(config, "train.global_batch"))
      return plan_passes(batch, data_ranks, wishes);
    if (kept->configured_samples_per_rank != said)
      throw Error(ExitCode::usage,
                  fmt::format("train.micro_batch and train.accumulation give {} per step on each of {} that read "
                              "different data, {} in total, but a step of this run has {}",
                              counted(*said, "sample"), counted(data_ranks, "rank"), batch, kept->global_batch),
                  fmt::format("--train.global_batch {} --train.accumulation null keeps the global batch of the run",
                              kept->global_batch));
    batch = kept->global_batch;
    wishes.passes.reset();
  }
  return plan_passes(batch, data_ranks, wishes);
}

}  // namespace lockstep
