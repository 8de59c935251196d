#include "comm/launch.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace lockstep {

namespace {

std::string job_in(const EnvironmentLookup& variable) {
  if (const char* const name = variable("PMIX_NAMESPACE")) return name;
  const char* const job = variable("SLURM_JOB_ID");
  const char* const step = variable("SLURM_STEP_ID");
  return job == nullptr || step == nullptr ? "" : std::string(job) + "." + step;
}

}  // namespace

Launch launch_in(const EnvironmentLookup& variable) {
  // mpirun's own variables first: inside an allocation its daemons are steps of srun, whose variables the ranks
  // inherit.
  constexpr std::array<std::pair<const char*, const char*>, 3> variables = {
      {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
       {"PMI_SIZE", "PMI_RANK"},
       {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}};
  for (const auto& [size, rank] : variables) {
    const char* ranks = variable(size);
    if (ranks == nullptr || std::atoi(ranks) < 1) continue;
    const char* mine = variable(rank);
    return {.ranks = std::atoi(ranks),
            .rank = mine == nullptr ? 0 : std::atoi(mine),
            .by = Launch::Origin::launcher,
            .job = job_in(variable)};
  }
  return {};
}

int ranks_of_torchrun(const EnvironmentLookup& variable) {
  if (launch_in(variable).by == Launch::Origin::launcher) return 1;
  const char* const size = variable("WORLD_SIZE");
  if (size == nullptr || variable("RANK") == nullptr || variable("LOCAL_RANK") == nullptr) return 1;
  return std::max(std::atoi(size), 1);
}

Launch launch_of_process() {
  return launch_in([](const char* name) { return std::getenv(name); });
}
int ranks_of_torchrun() {
  return ranks_of_torchrun([](const char* name) { return std::getenv(name); });
}

}  // namespace lockstep
