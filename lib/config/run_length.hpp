// Length of a run and of its schedule, resolved once data and ranks are known: train.max_steps or train.epochs, warm-up
// and decay in steps or as ratios, and the batch size. A run saves the result with its checkpoints; a resume on another
// number of ranks keeps it. Pure.
#pragma once

#include "config/train_config.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct RunLength {
  std::int64_t steps = 0;           // of the whole run; 0: unknown without the dataset
  std::int64_t warmup_steps = 0;    // steps of rising learning rate
  std::int64_t decay_steps = 0;     // step at which the decay ends
  std::int64_t cooldown_steps = 0;  // length of the cooldown, for schedules that have one
  bool operator==(const RunLength&) const = default;
};

/// Returns the steps of an epoch, if no step crosses its end: samples / global batch, rounded up. Pure.
std::int64_t steps_per_epoch(std::int64_t global_batch, std::int64_t samples_per_epoch);

/// Returns train.max_steps, or the steps of train.epochs, including the last step begun. An epoch has
/// `samples_per_epoch` samples. Throws Error(usage) if there are too many steps to count.
std::int64_t steps_of(const TrainConfig& config, std::int64_t global_batch, std::int64_t samples_per_epoch);

/// Returns the lengths for a run of `steps` steps; ratios are rounded up.
RunLength length_of(const TrainConfig& config, std::int64_t steps);

/// Returns the steps before the cooldown of the schedule; all steps of the run if it has none.
std::int64_t steps_before_cooldown(ScheduleName schedule, const RunLength& length);

/// Returns the reason why a schedule cannot have these lengths; empty if it can.
std::string contradiction_of(const ScheduleOptions& schedule, const RunLength& length);

/// Returns the samples of a step per data rank, as configured: train.micro_batch × train.accumulation ×
/// parallel.micro_batches. Not set if train.global_batch gives the batch, or if micro_batch or accumulation is not set.
std::optional<std::int64_t> configured_samples_per_rank(const TrainConfig& config);

/// Resolved values of a run: the document "resolved" of its checkpoints.
struct ResolvedRun {
  static constexpr const char* document = "resolved";
  std::int64_t global_batch = 0;                            // samples
  std::optional<std::int64_t> configured_samples_per_rank;  // result of configured_samples_per_rank()
  RunLength length;
  std::optional<std::int64_t> seed = {};  // train.seed, given or drawn; not set in checkpoints of earlier versions
  std::optional<std::int64_t> pad_to_multiple_of = {};  // of packed documents; not set if samples are windows
  // The samples of an epoch are a multiple of this. Set if data.drop_last and data.short_last_step both are.
  std::optional<std::int64_t> epoch_multiple = {};
  bool operator==(const ResolvedRun&) const = default;
};
std::string to_text(const ResolvedRun& run);
/// Parses the document. Throws Error(input) naming `origin`.
ResolvedRun parse_resolved(const std::string& text, const std::string& origin);

}  // namespace lockstep
