// How long a run is and what its steps are made of, once the data and the ranks are known: what train.max_steps or
// train.epochs, warm-up and decay as steps or ratios, and the words for a batch come to. A run keeps it with its
// checkpoints, and what it resolved holds on other ranks. Pure.
#pragma once

#include "config/train_config.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct RunLength {
  std::int64_t steps = 0;           // of the whole run; 0: they follow from data that are not there
  std::int64_t warmup_steps = 0;    // over which the learning rate rises
  std::int64_t decay_steps = 0;     // at which it has fallen
  std::int64_t cooldown_steps = 0;  // the last ones, of schedules that have a cooldown
  bool operator==(const RunLength&) const = default;
};

/// Steps of an epoch of so many samples that no step leaves. Pure.
std::int64_t steps_per_epoch(std::int64_t global_batch, std::int64_t samples_per_epoch);

/// train.max_steps, or train.epochs of so many samples in steps of `global_batch`, the last one begun counted. Throws
/// Error(usage) for more steps than can be counted.
std::int64_t steps_of(const TrainConfig& config, std::int64_t global_batch, std::int64_t samples_per_epoch);

/// Of a run of so many steps; ratios are rounded up.
RunLength length_of(const TrainConfig& config, std::int64_t steps);

/// The steps before the cooldown of such a schedule; all of the run where it has none.
std::int64_t steps_before_cooldown(ScheduleName schedule, const RunLength& length);

/// Why a schedule of that length cannot be; empty if it can.
std::string contradiction_of(const ScheduleOptions& schedule, const RunLength& length);

/// Samples of a step and a data rank, as train.micro_batch, train.accumulation and parallel.micro_batches say; absent
/// where train.global_batch says the batch.
std::optional<std::int64_t> samples_said(const TrainConfig& config);

/// What a run resolved, as the document "resolved" of its checkpoints.
struct ResolvedRun {
  static constexpr const char* document = "resolved";
  std::int64_t global_batch = 0;             // samples
  std::optional<std::int64_t> samples_said;  // as of that function
  RunLength length;
  std::optional<std::int64_t> seed = {};  // train.seed, said or drawn; absent in what earlier versions saved
  std::optional<std::int64_t> pad_to_multiple_of = {};  // of packed documents; absent where samples are windows
  std::optional<std::int64_t> epoch_multiple = {};      // of the samples of an epoch, where the last step may be short
                                                        // and some are dropped
  bool operator==(const ResolvedRun&) const = default;
};
std::string to_text(const ResolvedRun& run);
/// Throws Error(input) naming `origin`.
ResolvedRun parse_resolved(const std::string& text, const std::string& origin);

}  // namespace lockstep
