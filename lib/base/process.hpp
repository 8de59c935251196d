// What this process holds of its machine: a leak shows as numbers that grow from one step boundary to the next.
#pragma once

#include <cstdint>

namespace lockstep {

struct ProcessHoldings {
  std::int64_t resident_kib = 0;  // memory that is in use of the machine
  std::int64_t peak_kib = 0;      // the most that ever was
  std::int64_t descriptors = 0;   // open files, pipes, sockets
  std::int64_t threads = 0;
};

/// Of this process now; 0 where the system does not tell. Cheaper than all of its holdings. Local.
std::int64_t resident_bytes();

/// Local. A number that the system does not tell is 0.
ProcessHoldings holdings_of_process();

}  // namespace lockstep
