// RUN/status.json: how a run ended, or that it has not, and which job's progress lies in the folder. Launchers replace
// exit codes; this file holds the truth.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// JobIdentity tells whether another job runs the same command, and whether it is the same job of Slurm.
struct JobIdentity {
  std::string configuration = {};   // equal for commands that make the same run
  std::string slurm_job = {};       // empty outside Slurm
  std::int64_t slurm_restarts = 0;  // times that Slurm has requeued the job
  bool operator==(const JobIdentity&) const = default;
};
/// The identity of this process's job: what the environment says of Slurm (SLURM_JOB_ID, SLURM_RESTART_COUNT). Local.
JobIdentity job_of_process(std::string configuration);

/// RunProgress says which job made the progress in a run folder, and how it ended.
struct RunProgress {
  JobIdentity by;
  bool stopped = false;  // on request, with progress saved
  bool operator==(const RunProgress&) const = default;
};
/// The progress of which status.json tells; nothing if it tells of none or is malformed. Local. Throws Error(storage)
/// if it cannot be read.
std::optional<RunProgress> progress_in(const Path& run_dir);
/// Whether `job` continues this progress: the same command made it, and was stopped with progress saved, or is a Slurm
/// job that was requeued since. Pure.
bool continues(const JobIdentity& job, const RunProgress& progress);

/// RunStatus keeps status.json of a job.
class RunStatus {
 public:
  /// From here on the progress in the folder is that of `job`. Local, on every rank. Throws Error(storage) if rank 0
  /// cannot write.
  void own_progress(const JobIdentity& job);

 private:
  struct State;
  friend RunStatus keep_status(Session& session, const Path& run_dir, const std::optional<RunProgress>& before);
  explicit RunStatus(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Writes on rank 0 that the run is going on, and sees to it that the file says how it ended when the session ends:
/// reason (a name of ExitCode, or "running"), code, explanation, the rank that it is about with its host, phase and
/// step, and the time. Where no rank of the job lived to say how it ended, "running" stays behind, with host and
/// process of rank 0. Until the job owns the progress in the folder, the file repeats `before`. Each version appears
/// whole, the last one in the folder that had this name at the call. Local, on every rank. Throws Error(storage) if
/// rank 0 cannot write, or the file is a symbolic link.
RunStatus keep_status(Session& session, const Path& run_dir, const std::optional<RunProgress>& before = {});

/// Writes how a job ended whose ranks did not find each other, unless another job is at work in the folder. Local, on
/// the rank that explains the end. Throws Error(usage) if another job holds the folder's lock, Error(storage).
void tell_failed_start(const Path& run_dir, const Session::End& how);

/// What is known of a job that left "running" behind; nothing if the last job said how it ended. The caller holds the
/// run's lock, so that no other job is at work. Local.
std::optional<std::string> unexplained_end(const Path& run_dir);

}  // namespace lockstep
