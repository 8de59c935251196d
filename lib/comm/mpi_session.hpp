// MpiSession starts and ends MPI in a process. A program that runs alone needs none; comm/launch.hpp detects that.
#pragma once

#include "comm/communicator.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Runs MPI from MPI_Init_thread to MPI_Finalize. One per process, made by the main of a parallel program or a test.
class MpiSession {
 public:
  /// Starts MPI. Throws Error(communication) if it lacks MPI_THREAD_MULTIPLE, or if the launcher started several
  /// processes that do not find each other. Collective over the job.
  MpiSession();
  /// Ends MPI. Collective over the job: call it only where all ranks arrive.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  /// The word of every rank at the end of its work, numbered as by the launcher. Nothing if the others do not arrive
  /// within `patience_s` (negative: wait for ever). At most once per process. Collective over the job, as far as that
  /// is still possible.
  std::optional<std::vector<std::uint64_t>> gather_outcomes(std::uint64_t word, double patience_s);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
