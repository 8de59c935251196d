#include "comm/launch.hpp"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <map>
#include <string>

using namespace lockstep;

namespace {

/// The launch that a process with only these variables sees.
Launch launch_with(const std::map<std::string, std::string>& variables) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"})
    ::unsetenv(name);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  const Launch launch = launch_of_process();
  for (const auto& [name, value] : variables) ::unsetenv(name.c_str());
  return launch;
}

EnvironmentLookup lookup(const std::map<std::string, std::string>& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(launch)

BOOST_AUTO_TEST_CASE(a_process_without_a_launcher_is_alone) { BOOST_TEST(launch_with({}).ranks == 1); }

BOOST_AUTO_TEST_CASE(mpirun_and_srun_are_recognised) {
  const Launch mpirun = launch_with({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  BOOST_TEST(mpirun.ranks == 4);
  BOOST_TEST(mpirun.rank == 3);
  BOOST_TEST(launch_with({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}}).rank == 5);
}

BOOST_AUTO_TEST_CASE(mpirun_inside_an_allocation_counts_not_the_step_of_its_daemons) {
  const Launch launch = launch_with({{"SLURM_STEP_NUM_TASKS", "2"},
                                     {"SLURM_PROCID", "1"},
                                     {"OMPI_COMM_WORLD_SIZE", "16"},
                                     {"OMPI_COMM_WORLD_RANK", "9"}});
  BOOST_TEST(launch.ranks == 16);
  BOOST_TEST(launch.rank == 9);
}

BOOST_AUTO_TEST_CASE(jobs_have_names_that_all_their_ranks_see) {
  const auto job_with = [](const std::map<std::string, std::string>& variables) {
    return launch_in(lookup(variables)).job;
  };
  BOOST_TEST(job_with({{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMIX_NAMESPACE", "1167785985"}}) == "1167785985");
  BOOST_TEST(job_with({{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "3"}}) == "17.3");
  BOOST_TEST(job_with({{"PMI_SIZE", "2"}}) == "");
  BOOST_TEST(job_with({{"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "3"}}) == "");
}

BOOST_AUTO_TEST_CASE(torchrun_is_recognised_where_no_mpi_launcher_connects_its_processes) {
  using Variables = std::map<std::string, std::string>;
  const auto ranks_with = [](const Variables& variables) { return ranks_of_torchrun(lookup(variables)); };
  Variables torchrun{{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"LOCAL_RANK", "1"}};
  BOOST_TEST(ranks_with(torchrun) == 4);
  BOOST_TEST(launch_in(lookup(torchrun)).ranks == 1);
  torchrun.merge(Variables{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "1"}});
  BOOST_TEST(ranks_with(torchrun) == 1);  // scripts set these variables for ranks of mpirun
  BOOST_TEST(ranks_with({{"WORLD_SIZE", "4"}}) == 1);
  BOOST_TEST(ranks_with({{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}}) == 1);
}

BOOST_AUTO_TEST_CASE(a_batch_script_without_srun_is_alone) {
  BOOST_TEST(launch_with({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).ranks == 1);
}

BOOST_AUTO_TEST_SUITE_END()
