// The report of a start: the lines of the log and the records before the first step.
#pragma once

#include "options/settings.hpp"
#include "train/run_files.hpp"
#include "train/run_setup.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <string>

namespace lockstep {

/// The facts of a start.
struct StartFacts {
  const TrainConfig& given;   // as files and command line have it
  const TrainConfig& config;  // completed: seed, mesh, prepared data
  const TrainPlan& plan;
  const Settings& settings;
  const Machines& machines;
  const TrainState& state;     // before the first step
  const RunStart& begun;       // from which checkpoint
  const std::string& resumes;  // why the run resumes although checkpoint.resume is afresh or never; empty: it does not
  const std::string& unexplained_end;  // of the job before; empty: none
};

/// Logs and records a start. Called by all ranks; the report is that of rank 0, apart from the warning of a rank whose
/// node has no local tier. Local. Throws Error(usage) as notes_on does.
void report_start(const StartFacts& facts, int rank, RunFiles& files, Log& log);

}  // namespace lockstep
