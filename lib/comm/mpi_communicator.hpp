// The communicator of ranks that communicate over MPI. Only sources of comm include MPI's header. comm/mpi_session.hpp
// starts and ends MPI.
#pragma once

#include "comm/communicator.hpp"

#include <memory>
#include <string>

namespace lockstep {

/// How ranks of one machine transfer large data: by reading each other's memory where the system allows it, or only by
/// messages.
enum class LargeTransfers { read_directly, by_messages };

/// All ranks of the job, on a communicator of its own. They keep the order of the launcher, except that ranks of one
/// node become neighbours (by_node of layout/nodes.hpp); the first rank stays the first. `node` names the node of this
/// rank. MPI must be running with MPI_THREAD_MULTIPLE. Failing MPI calls throw Error(communication). Collective over
/// the job.
std::unique_ptr<Communicator> mpi_world(LargeTransfers large = LargeTransfers::read_directly,
                                        const std::string& node = host_name());

}  // namespace lockstep
