// The cost of a run, as a plan states it: hours, memory of a node, and bytes of checkpoints. The hours follow from the
// FLOPs of all steps and an assumed utilisation, or from measured steps (train/calibrate.hpp).
#pragma once

#include "program/dry_run.hpp"
#include "train/train_plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Memory of a rank besides the plan: program, libraries, buffers of MPI.
constexpr std::int64_t process_bytes = std::int64_t{512} << 20;

/// Returns the hours of a run on `ranks` ranks that each reach `utilization` of `peak_flops_per_s`. Pure.
double assumed_hours(double run_flops, double peak_flops_per_s, double utilization, int ranks);

struct SaveCounts {
  std::int64_t saves = 0;    // of the whole run, at most
  std::int64_t at_once = 0;  // checkpoints on disk at once, at most, with the one that is being written
  std::string uncounted;     // option whose saves cannot be counted; empty: all are counted
  bool operator==(const SaveCounts&) const = default;
};
/// Counts the saves of a run of `steps` steps. `epochs` is its length, not set without a dataset; `hours` its duration,
/// not set if it is unknown. `evaluates`: checkpoints have a metric, so that the best ones are kept. Pure.
SaveCounts count_saves(const CheckpointOptions& checkpoint, std::int64_t steps, std::optional<double> epochs,
                       std::optional<double> hours, bool evaluates);

/// Returns the bytes of memory for each node, with process_bytes for each rank; `needed` has the planned bytes of each
/// rank. The result is that of the largest node, rounded up to GiB. Pure.
std::int64_t node_memory(const std::vector<std::int64_t>& needed, const Nodes& nodes);

/// Returns the section "cost" of a plan. With `step_s`, the measured seconds of a step, hours are based on it. Local.
std::vector<Row> cost_rows(const TrainConfig& config, const TrainPlan& plan, const Placement& placement,
                           std::optional<double> step_s);

}  // namespace lockstep
