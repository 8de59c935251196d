// The memory available to this process according to Linux: of the machine, and of each control group (version 1 or 2)
// that contains the process, as set by a container or a queue. The comparison with a plan: program/memory_fit.hpp.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct MemoryLimit {
  std::string identity;  // equal in all processes that share the limit, and only in these
  std::string group;     // path of the control group; empty: the machine
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;  // without swapping; pages that only cache files count as available
};

/// Returns the limit of the machine, then of the control groups with a limit below it, from the innermost outwards.
/// Limits that the system does not report are omitted. `root` stands for "/", so that tests can replace the files.
/// Local.
std::vector<MemoryLimit> memory_limits(const Path& root = "/");

}  // namespace lockstep
