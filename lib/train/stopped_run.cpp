#include "train/stopped_run.hpp"

#include "base/json.hpp"
#include "comm/launch.hpp"
#include "comm/together.hpp"
#include "store/run_directory.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

bool names_own_checkpoint(const TrainConfig& config, Communicator& world) {
  return run_on_rank0(world, "read checkpoint.resume", [&] {
           return std::string(step_within(config.checkpoint.resume.path, config.train.run_dir) ? "own" : "other");
         }) == "own";
}

}  // namespace

FormerProgress former_progress(const TrainConfig& config, const JobIdentity& job, Communicator& world) {
  const std::string told = run_on_rank0(world, "read status.json", [&] {
    const std::optional<RunProgress> progress = progress_in(config.train.run_dir);
    if (!progress) return std::string();
    return to_text(Json{progress->by.configuration, progress->by.slurm_job, progress->by.slurm_restarts,
                        progress->stopped, continues(job, *progress)});
  });
  if (told.empty()) return {};
  const Json words = parse_json(told, "message of rank 0");
  return {.progress = RunProgress{.by = {.configuration = words[0], .slurm_job = words[1], .slurm_restarts = words[2]},
                                  .stopped = words[3]},
          .goes_on = words[4]};
}

TrainConfig resumed_config(TrainConfig config, Communicator& world) {
  Resume& resume = config.checkpoint.resume;
  switch (resume.from) {
    case Resume::From::automatic:
    case Resume::From::latest: break;
    case Resume::From::path:
      if (names_own_checkpoint(config, world)) resume = {};
      break;
    case Resume::From::never:
    case Resume::From::afresh:
    case Resume::From::best:
    case Resume::From::step: resume = {}; break;
  }
  return config;
}

std::string agreed_stop_reason(const std::string& own, Communicator& world) {
  const std::vector<std::string> reasons = world.gather(own, 0);
  const auto first = std::ranges::find_if(reasons, [](const std::string& reason) { return !reason.empty(); });
  return first == reasons.end() ? "a request" : *first;
}

std::string stopped_text(const std::string& stopped, const std::string& next_start) {
  const bool launched = launch_of_process().by == Launch::Origin::launcher;
  return fmt::format("{}; exit code 75 means: {}{}", stopped, next_start,
                     launched ? "; if the launcher prints a message after this line, it reports this code only" : "");
}

}  // namespace lockstep
