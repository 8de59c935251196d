// A run that was stopped with exit code 75, or whose Slurm job was requeued, continues with the same command under any
// setting of checkpoint.resume. status.json tells how the last job ended (app/status_file.hpp). The log explains the
// exit code.
#pragma once

#include "app/status_file.hpp"
#include "comm/communicator.hpp"
#include "config/train_config.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// FormerProgress is the progress that a job finds in its run folder.
struct FormerProgress {
  std::optional<RunProgress> progress;
  bool goes_on = false;  // the job continues it
};

/// Reads the progress on rank 0 and returns it on all ranks. Collective over `world`. Throws Error(storage).
FormerProgress former_progress(const TrainConfig& config, const JobIdentity& job, Communicator& world);

/// Returns the configuration of a job that continues the run: its checkpoint.resume selects the newest checkpoint of
/// the run. A path to another run's checkpoint stays, because it applies only while the run has no checkpoint.
/// Collective over `world`.
TrainConfig resumed_config(TrainConfig config, Communicator& world);

/// Returns, on rank 0, the request to stop of the lowest rank that knows one. `own` is that of this rank; empty: it
/// knows none. Collective over `world`.
std::string agreed_stop_reason(const std::string& own, Communicator& world);

/// Returns the last line of the log of a stopped job: "stopped by SIGUSR1 after step 3, progress saved", the meaning of
/// exit code 75, and, under a launcher, of the message that it prints about the code. Local.
std::string stopped_text(const std::string& stopped, const std::string& next_start);

}  // namespace lockstep
