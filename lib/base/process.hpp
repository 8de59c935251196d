// The memory, open files and threads of this process. A leak shows as numbers that grow from one step boundary to the
// next.
#pragma once

#include <cstdint>

namespace lockstep {

struct ProcessHoldings {
  std::int64_t resident_kib = 0;  // physical memory in use
  std::int64_t peak_kib = 0;      // highest resident_kib so far
  std::int64_t descriptors = 0;   // open files, pipes, sockets
  std::int64_t threads = 0;
};

/// Returns the resident memory of this process now; 0 if the system does not report it. Cheaper than
/// holdings_of_process. Local.
std::int64_t resident_bytes();

/// Returns the holdings of this process; a number that the system does not report is 0. Local.
ProcessHoldings holdings_of_process();

}  // namespace lockstep
