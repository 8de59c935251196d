#include "app/job.hpp"
#include "comm/launch.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/mpi_session.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace lockstep {

namespace {

class MpiJob final : public Job {
 public:
  std::unique_ptr<Communicator> world() override {
    std::unique_ptr<Communicator> world = mpi_world();
    launcher_ranks_ = world->launcher_ranks();
    return world;
  }
  std::optional<std::vector<std::uint64_t>> gather_outcomes(std::uint64_t word, double patience_s) override {
    const auto launched = session_->gather_outcomes(word, patience_s);
    if (!launched) return std::nullopt;
    std::vector<std::uint64_t> words;
    for (const Rank rank : launcher_ranks_) words.push_back((*launched)[static_cast<std::size_t>(rank)]);
    return words;
  }
  void close(int code) override {
    std::thread([code] {
      std::this_thread::sleep_for(std::chrono::seconds(10));
      ::_exit(code);
    }).detach();
    session_.reset();
  }

 private:
  std::unique_ptr<MpiSession> session_ = std::make_unique<MpiSession>();
  std::vector<Rank> launcher_ranks_;  // of the world's ranks
};

}  // namespace

std::unique_ptr<Job> parallel_job(const std::string& tool) {
  if (launch_of_process().ranks == 1) return serial_job(tool);
  return std::make_unique<MpiJob>();
}

}  // namespace lockstep
