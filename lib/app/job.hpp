// The processes that run a tool together: a single one, or all that a launcher started. A serial program refers to
// serial_job only, so it is not linked with MPI.
#pragma once

#include "comm/communicator.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Job {
 public:
  virtual ~Job() = default;
  virtual std::unique_ptr<Communicator> world() = 0;  // call it once. Collective over the job
  /// Returns the outcome of every rank, by rank. Returns nothing if the other ranks do not arrive within `patience_s`
  /// seconds (negative: no limit). Collective over the job.
  virtual std::optional<std::vector<std::uint64_t>> gather_outcomes(std::uint64_t word, double patience_s) = 0;
  /// Disconnects the ranks. All ranks call it after their communicators are gone. If it takes longer than 10 s, the
  /// process ends with `code`.
  virtual void close(int code) = 0;
};

using StartJob = std::function<std::unique_ptr<Job>(const std::string& tool)>;

/// Makes a job of one process. Throws Error(usage) if a launcher started several: they would all do the same work.
/// Local.
std::unique_ptr<Job> serial_job(const std::string& tool);
/// Makes a job of all processes that the launcher started, connected by MPI. Without a launcher it is one process
/// without MPI. Collective over the job. Throws Error(communication) as comm/mpi_session.hpp says.
std::unique_ptr<Job> parallel_job(const std::string& tool);

}  // namespace lockstep
