// RUN/status.json: how a run ended, or that it has not. Launchers replace exit codes; this file holds the truth.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Writes on rank 0 that the run is going on, and sees to it that the file says how it ended when the session ends:
/// reason (a name of ExitCode, or "running"), code, explanation, the rank that it is about with its host, phase and
/// step, and the time. Where no rank of the job lived to say how it ended, "running" stays behind, with host and
/// process of rank 0. Each version appears whole, the last one in the folder that had this name at the call. Local, on
/// every rank. Throws Error(storage) if rank 0 cannot write.
void keep_status(Session& session, const Path& run_dir);

/// Writes how a job ended whose ranks did not find each other, unless another job is at work in the folder. Local, on
/// the rank that explains the end. Throws Error(usage) if another job holds the folder's lock, Error(storage).
void tell_failed_start(const Path& run_dir, const Session::End& how);

/// What is known of a job that left "running" behind; nothing if the last job said how it ended. The caller holds the
/// run's lock, so that no other job is at work. Local.
std::optional<std::string> unexplained_end(const Path& run_dir);

}  // namespace lockstep
