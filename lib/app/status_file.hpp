// RUN/status.json: how a run ended, or that it has not. Launchers replace exit codes; this file holds the truth.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"

namespace lockstep {

/// Writes on rank 0 that the run is going on, and sees to it that the file says how it ended when the session ends: reason (a name of
/// ExitCode, or "running"), code, explanation, rank, host, phase, step, time. A run that was killed leaves "running" behind.
/// Each version appears whole. Local, on every rank. Throws Error(storage) if rank 0 cannot write.
void keep_status(Session& session, const Path& run_dir);

}  // namespace lockstep
