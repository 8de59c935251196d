#include "app/job.hpp"

#include "base/error.hpp"
#include "comm/launch.hpp"

namespace lockstep {

namespace {

class SoloJob final : public Job {
 public:
  std::unique_ptr<Communicator> world() override { return solo_communicator(); }
  std::optional<std::vector<std::uint64_t>> gather_outcomes(std::uint64_t word, double) override {
    return std::vector{word};
  }
  void close(int) override {}
};

}  // namespace

std::unique_ptr<Job> serial_job(const std::string& tool) {
  if (const int ranks = launch_of_process().ranks; ranks > 1) {
    throw Error(ExitCode::usage, fmt::format("{} runs in one process, but {} were launched", tool, ranks),
                "start it without mpirun or srun");
  }
  return std::make_unique<SoloJob>();
}

}  // namespace lockstep
