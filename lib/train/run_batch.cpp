#include "train/run_batch.hpp"

#include "base/error.hpp"
#include "base/words.hpp"
#include "config/fixed_options.hpp"
#include "options/ranges.hpp"

namespace lockstep {

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
