#include "comm/launch.hpp"

#include <array>
#include <cstdlib>
#include <utility>

namespace lockstep {

Launch launch_of_process() {
  // mpirun's own variables first: inside an allocation its daemons are steps of srun, whose variables the ranks
  // inherit.
  constexpr std::array<std::pair<const char*, const char*>, 3> variables = {
      {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
       {"PMI_SIZE", "PMI_RANK"},
       {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}};
  for (const auto& [size, rank] : variables) {
    const char* ranks = std::getenv(size);
    if (ranks == nullptr || std::atoi(ranks) < 1) continue;
    const char* mine = std::getenv(rank);
    return {std::atoi(ranks), mine == nullptr ? 0 : std::atoi(mine), Launch::By::launcher};
  }
  return {};
}

}  // namespace lockstep
