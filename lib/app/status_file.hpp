// RUN/status.json: whether and how a run ended, and which job made the progress in the folder. Launchers often replace
// exit codes; this file keeps the original one.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// JobIdentity identifies a job by its command and its Slurm job.
struct JobIdentity {
  std::string configuration = {};   // equal for commands of the same run
  std::string slurm_job = {};       // empty outside Slurm
  std::int64_t slurm_restarts = 0;  // number of requeues by Slurm
  bool operator==(const JobIdentity&) const = default;
};
/// Returns the identity of this process's job, from the environment variables SLURM_JOB_ID and SLURM_RESTART_COUNT.
/// Local.
JobIdentity job_of_process(std::string configuration);

/// RunProgress says which job made the progress in a run folder, and how it ended.
struct RunProgress {
  JobIdentity by;
  bool stopped = false;  // on request, with progress saved
  bool operator==(const RunProgress&) const = default;
};
/// Returns the progress that status.json records; nothing if it records none or is malformed. Local. Throws
/// Error(storage) if it cannot be read.
std::optional<RunProgress> progress_in(const Path& run_dir);
/// Returns whether `job` continues this progress. The same command must have made it. It must also have been stopped
/// with progress saved, or belong to the same Slurm job, requeued since. Pure.
bool continues(const JobIdentity& job, const RunProgress& progress);

/// RunStatus keeps status.json of a job up to date.
class RunStatus {
 public:
  /// Declares that the progress in the folder now belongs to `job`. Local, on every rank. Throws Error(storage) if rank
  /// 0 cannot write.
  void own_progress(const JobIdentity& job);

 private:
  struct State;
  friend RunStatus keep_status(Session& session, const Path& run_dir, const std::optional<RunProgress>& before);
  explicit RunStatus(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Writes on rank 0 that the run is running. When the session ends, the file gets the outcome: reason (a name of
/// ExitCode), code, explanation, the rank concerned with its host, phase and step, and the time. If no rank survives to
/// record the end, the reason stays "running", with host and process of rank 0. Until the job owns the progress in the
/// folder, the file repeats `before`. Each version is published atomically. The last one goes into the folder that had
/// this name at the call, even if it was moved. Local, on every rank. Throws Error(storage) if rank 0 cannot write, or
/// if the file is a symbolic link.
RunStatus keep_status(Session& session, const Path& run_dir, const std::optional<RunProgress>& before = {});

/// Records how a job ended that could not connect its ranks, unless another job is running in the folder. Local, on the
/// rank that explains the end. Throws Error(usage) if another job holds the folder's lock, and Error(storage).
void record_failed_start(const Path& run_dir, const Session::End& how);

/// Returns a description of the previous job if its status is still "running" or is malformed; nothing if it recorded
/// its end. The caller holds the run's lock, so no other job is running. Local.
std::optional<std::string> unexplained_end(const Path& run_dir);

}  // namespace lockstep
