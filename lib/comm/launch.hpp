// Launch says how this process was started. It asks the environment alone: without MPI, before MPI.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

struct Launch {
  int ranks = 1;                                   // processes that the launcher (mpirun, srun) started together
  int rank = 0;                                    // which of them this is
  enum class By { hand, launcher } by = By::hand;  // under a launcher the terminal, if any, is the launcher's
  std::string job = {};  // tells the jobs of a machine apart; empty where the launcher gives no name
};
Launch launch_of_process();

/// Looks up a variable of an environment; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char*)>;
/// How a process with this environment was started. Pure.
Launch launch_in(const EnvironmentLookup& variable);

/// How many processes torchrun started together with this one, if it is more than one and no MPI launcher did: MPI does
/// not connect them. 1 otherwise. Pure.
int ranks_of_torchrun(const EnvironmentLookup& variable);
int ranks_of_torchrun();  // of this process

}  // namespace lockstep
