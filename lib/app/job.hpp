// The processes that run a tool together: one, or those that a launcher started. A serial program refers to serial_job
// only and therefore carries no MPI.
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
  virtual std::unique_ptr<Communicator> world() = 0;  // once. Collective over the job
  /// Every rank's word at the end, by rank; nothing if the others do not come within `patience_s` (negative: for ever).
  virtual std::optional<std::vector<std::uint64_t>> gather_outcomes(std::uint64_t word, double patience_s) = 0;
  /// All ranks are here, all communicators gone: ends what connects them, or the process with `code` if that takes
  /// longer than 10 s.
  virtual void close(int code) = 0;
};

using StartJob = std::function<std::unique_ptr<Job>(const std::string& tool)>;

/// One process. Throws Error(usage) if a launcher started several: they would all do the same work. Local.
std::unique_ptr<Job> serial_job(const std::string& tool);
/// All processes that the launcher started, connected by MPI; without a launcher one process, and no MPI. Collective
/// over the job. Throws Error(communication) as comm/mpi_session.hpp says.
std::unique_ptr<Job> parallel_job(const std::string& tool);

}  // namespace lockstep
