// Launch says how this process was started. It asks the environment alone: without MPI, before MPI.
#pragma once

namespace lockstep {

struct Launch {
  int ranks = 1;                                   // processes that the launcher (mpirun, srun) started together
  int rank = 0;                                    // which of them this is
  enum class By { hand, launcher } by = By::hand;  // under a launcher the terminal, if any, is the launcher's
};
Launch launch_of_process();

}  // namespace lockstep
