// Launch describes how this process was started. It reads only the environment, so it works without MPI and before MPI.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

struct Launch {
  int ranks = 1;  // processes that the launcher (mpirun, srun) started together
  int rank = 0;   // number of this process among them
  enum class Origin { hand, launcher } by = Origin::hand;  // under a launcher the terminal, if any, is the launcher's
  std::string job = {};  // identifies a job among those of a machine; empty if the launcher gives no name
};
Launch launch_of_process();

/// Looks up a variable of an environment; null if it is not set.
using EnvironmentLookup = std::function<const char*(const char*)>;
/// Returns how a process with this environment was started. Pure.
Launch launch_in(const EnvironmentLookup& variable);

/// The number of processes that torchrun started together with this one, if there are several and no MPI launcher
/// started them: MPI does not connect them. Otherwise 1. Pure.
int ranks_of_torchrun(const EnvironmentLookup& variable);
int ranks_of_torchrun();  // of this process

}  // namespace lockstep
