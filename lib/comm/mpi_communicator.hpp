// Ranks that speak over MPI. Only comm sources include MPI's header; this one does not show it. Who starts and ends
// MPI: comm/mpi_session.hpp.
#pragma once

#include "comm/communicator.hpp"

#include <memory>
#include <string>

namespace lockstep {

/// How ranks of one machine get what is large: each reads what it needs of the others where the system allows it, or by
/// messages only.
enum class LargeTransfers { read_directly, by_messages };

/// All ranks of the job, on a communicator of its own. They are numbered as the launcher did it, but those of one node
/// are neighbours (by_node of layout/nodes.hpp); the first rank stays the first. `node` names the node of this rank.
/// MPI must be running with MPI_THREAD_MULTIPLE. Failing MPI calls throw Error(communication). Collective over the job.
std::unique_ptr<Communicator> mpi_world(LargeTransfers large = LargeTransfers::read_directly,
                                        const std::string& node = host_name());

}  // namespace lockstep
