#include "program/batch_plan.hpp"

#include "base/error.hpp"
#include "base/words.hpp"

#include <algorithm>

namespace lockstep {

SampleRange share_of(std::int64_t total, std::int64_t ranks, std::int64_t rank) {
  const std::int64_t each = total / ranks;
  const std::int64_t longer = total % ranks;  // ranks with one more
  return {rank * each + std::min(rank, longer), each + (rank < longer ? 1 : 0)};
}

std::int64_t accumulation_of(std::int64_t total, std::int64_t ranks, std::int64_t micro_batch) {
  return (share_of(total, ranks, 0).count + micro_batch - 1) / micro_batch;
}

BatchPlan plan_batch(std::int64_t global_batch, std::int64_t ranks, std::optional<std::int64_t> micro_batch) {
  if (ranks < 1) fail(ExitCode::usage, "cannot divide a batch among {} ranks", ranks);
  if (global_batch < 1)
    fail(ExitCode::usage, "a global batch of {} samples is too small: it needs at least 1", global_batch);
  if (micro_batch && *micro_batch < 1)
    fail(ExitCode::usage, "a micro-batch of {} samples is too small: it needs at least 1", *micro_batch);
  if (ranks > global_batch)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide a global batch of {} among {}: {} of them would have no sample",
                            counted(global_batch, "sample"), counted(ranks, "rank"), ranks - global_batch),
                fmt::format("start at most {}, or raise the global batch", counted(global_batch, "rank")));
  const std::int64_t largest_share = share_of(global_batch, ranks, 0).count;
  const std::int64_t at_once = std::min(micro_batch.value_or(largest_share), largest_share);
  return {global_batch, ranks, at_once, accumulation_of(global_batch, ranks, at_once)};
}

std::pair<BatchPlan, PassPlan> plan_passes(std::int64_t global_batch, std::int64_t ranks, const BatchRequest& wishes) {
  const std::int64_t asked = wishes.passes.value_or(1) * wishes.micro_batches.value_or(1);
  std::optional<std::int64_t> at_once = wishes.micro_batch;
  if (!at_once && ranks > 0)
    at_once = std::max<std::int64_t>(1, (share_of(global_batch, ranks, 0).count + asked - 1) / asked);
  const BatchPlan batch = plan_batch(global_batch, ranks, at_once);
  const std::int64_t count = batch.accumulation, samples = samples_of(batch, 0).count;
  if (!wishes.passes && !wishes.micro_batches) return {batch, {1, count}};
  const auto asked_text = [&] {
    if (!wishes.passes) return counted(*wishes.micro_batches, "micro-batch");
    return wishes.micro_batches ? fmt::format("{} × {} = {}", counted(*wishes.passes, "pass"),
                                              counted(*wishes.micro_batches, "micro-batch"), asked)
                                : counted(*wishes.passes, "pass");
  };
  const bool both = wishes.passes && wishes.micro_batches;
  if (both || !wishes.micro_batch ? count != asked : count % asked != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot divide the {} of a rank into {}: micro-batches of {} make {}",
                            counted(samples, "sample"), asked_text(), counted(batch.micro_batch, "sample"), count),
                wishes.micro_batch ? "leave train.micro_batch out, or one of train.accumulation and "
                                     "parallel.micro_batches"
                                   : "use a number of micro-batches that divides the samples of a rank");
  if (wishes.passes) return {batch, {*wishes.passes, count / *wishes.passes}};
  return {batch, {count / *wishes.micro_batches, *wishes.micro_batches}};
}

SampleRange samples_of(const BatchPlan& plan, std::int64_t rank) {
  return share_of(plan.global_batch, plan.ranks, rank);
}

SampleRange samples_of(const BatchPlan& plan, std::int64_t rank, std::int64_t micro_batch_index) {
  const SampleRange share = samples_of(plan, rank);
  const std::int64_t before = std::min(micro_batch_index * plan.micro_batch, share.count);
  return {share.begin + before, std::min(plan.micro_batch, share.count - before)};
}

}  // namespace lockstep
