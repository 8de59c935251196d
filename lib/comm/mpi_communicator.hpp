// Ranks that speak over MPI. Only comm sources include MPI's header; this one does not show it. Who starts and ends
// MPI: comm/mpi_session.hpp.
#pragma once

#include "comm/communicator.hpp"

namespace lockstep {

/// How ranks of one machine get what is large: each reads what it needs of the others where the system allows it, or by
/// messages only.
enum class LargeTransfers { read_directly, by_messages };

/// All ranks of the job, on a private copy of MPI_COMM_WORLD. MPI must be running with MPI_THREAD_MULTIPLE.
/// Failing MPI calls throw Error(communication). Collective over the world.
std::unique_ptr<Communicator> mpi_world(LargeTransfers large = LargeTransfers::read_directly);

}  // namespace lockstep
