// How much memory there is for this process, as Linux tells it: of the machine, and of each control group (version 1 or
// 2) that holds the process, as a container or a queue sets it. What is compared with it: program/memory_fit.hpp.
#pragma once

#include "base/files.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct MemoryLimit {
  std::string identity;  // equal in the processes that share it, and in no others
  std::string group;     // path of the control group; empty: the machine
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;  // without swapping; pages that only cache files count as available
};

/// The machine, then the control groups that have a limit below the machine's memory, from the innermost outwards. What
/// the system does not tell is left out. Local. `root` stands for "/", so that tests can put files in its place.
std::vector<MemoryLimit> memory_limits(const Path& root = "/");

}  // namespace lockstep
