// The report of the end of a run: its summary in the records, and the last lines of the log.
#pragma once

#include "comm/communicator.hpp"
#include "train/loop.hpp"
#include "train/run_files.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

namespace lockstep {

/// Returns 0, 75 or 1, as train() does. Pure.
int exit_code_of(LoopEnd end);

struct EndFacts {
  LoopEnd end;
  const TrainConfig& config;
  const TrainPlan& plan;
  const TrainingLoop& loop;
  const TrainState& state;    // after the last step
  bool had_finished = false;  // before this start
};

/// Logs and records an end. Returns the last line of the log, which explains exit code 75; on other ranks than 0, and
/// at other ends, nothing. Collective over `world`.
std::string report_end(const EndFacts& facts, Communicator& world, RunFiles& files, Log& log);

}  // namespace lockstep
