// The body of train --calibrate: measures a few steps of a run on the started ranks and prints its cost. The cost:
// train/run_cost.hpp. A profile of steps within a run: train/step_profile.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "program/dry_run.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Measured steps of a run on its ranks.
struct Calibration {
  std::string data;                      // that the steps read, for people
  std::vector<double> step_s;            // seconds of each step, on the rank that took longest
  std::int64_t warmup_steps = 0;         // earlier steps, which are not among them
  double tokens_per_s = 0;               // labels trained on
  std::optional<double> mfu;             // not set if the peak is not known
  std::vector<std::int64_t> peak_bytes;  // most resident memory so far, by rank
};

/// Returns the median; of an even number of values the mean of the two in the middle. `values` is not empty. Pure.
double median_of(std::vector<double> values);

/// Returns the section "measured" of the answer. Pure.
std::vector<Row> calibration_rows(const Calibration& calibration);

/// Trains on fresh weights for config.calibrate steps after one that is not counted, and prints measured times, memory
/// and the cost of the run on rank 0. The steps read the prepared dataset, or random tokens if there is none. It writes
/// no file and takes no lock. Returns 0. Collective over the session's world. Failures are agreed Errors, as in train.
int calibrate(const TrainConfig& config, Session& session, Output& output);

}  // namespace lockstep
