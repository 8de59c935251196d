// The functions of NCCL on the fake device, over MPI. An operation is a job of the exchange queue, which ends when all
// its ranks have run it. Calls answer "in progress" some times first, as NCCL does. Each message names the operation
// that it belongs to, so that ranks whose orders differ are found.
#pragma once

#include "device/nccl_table.hpp"

#include <cstdint>

namespace lockstep::fake {

/// Numbers of calls that queue operations; 0: none.
struct NcclFaults {
  std::int64_t refused = 0;  // answers with an error
  std::int64_t lost = 0;     // is queued, never ends, and the ranks are lost
  std::int64_t hangs = 0;    // is queued and never ends
};

const NcclTable& nccl_over_mpi(const NcclFaults& faults);

}  // namespace lockstep::fake
