// A run that was stopped with exit code 75, or whose Slurm job was requeued, goes on with the same command, whatever
// checkpoint.resume says. status.json tells how the last job ended (app/status_file.hpp).
#pragma once

#include "app/status_file.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"

#include <optional>

namespace lockstep {

/// FormerProgress is the progress that a job finds in its run folder.
struct FormerProgress {
  std::optional<RunProgress> progress;
  bool goes_on = false;  // the job continues it
};

/// Reads it on rank 0; the same on all ranks. Collective over `world`. Throws Error(storage).
FormerProgress former_progress(const TrainConfig& config, const JobIdentity& job, Communicator& world);

/// The configuration of a job that continues the progress of the run: its checkpoint.resume means the newest checkpoint
/// of the run. Another start than that of the run itself is left as it is: it counts only while the run has none.
/// Collective over `world`.
TrainConfig resumed_config(TrainConfig config, Communicator& world);

}  // namespace lockstep
