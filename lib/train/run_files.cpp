#include "train/run_files.hpp"

#include "base/error.hpp"
#include "checkpoint/node_view.hpp"
#include "comm/launch.hpp"
#include "comm/together.hpp"
#include "corpus/tokenizers.hpp"
#include "report/run_curve.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lockstep {

RunFiles::RunFiles(Communicator& world, const Path& folder, RunStorage storage, Log& log)
    : folder_(folder), storage_(std::move(storage)), owns_records_(world.rank() == 0), log_(log), records_(log) {
  if (!storage_.is_shared()) require_own_storage(world, storage_, folder_);
  const bool keeps = storage_.keeps(world.rank());
  together(world, "lock the run directory", [&] {
    if (!keeps) return;
    lock_.emplace(lock_run(folder_));
    identity_ = identity_of(folder_);
  });
  if (!storage_.is_shared())
    for (const Path& checkpoint : finish_publications(world, storage_, folder_))
      log_.warning("{} was saved on all nodes and published on others alone: it is published here as well",
                   checkpoint.string());
  together(world, "clear the run directory", [&] {
    if (!keeps) return;
    trash_.emplace(folder_);
    clear_away();
  });
}

/// A start that goes well does not depend on it: saves clear away too, and say so where they cannot.
void RunFiles::clear_away() {
  try {
    collect_leftovers(folder_);
    trash_->wake();
  } catch (const Error& error) {
    log_.warning("what earlier jobs left stays: {}", error.what());
  }
}

void RunFiles::open(Communicator& world, const TrainConfig& config, const std::string& config_yaml,
                    const Tokenizer& tokenizer) {
  together(world, "open the run directory", [&] {
    if (world.rank() != 0) return;
    publish_file(folder_ / "config.yaml", config_yaml);
    save_tokenizer(tokenizer, folder_ / "tokenizer");
    records_.add("records.jsonl", file_sink(folder_ / "records.jsonl"));
    // Open MPI gives ranks a terminal of its own as stdout, whatever the user's is: under a launcher records always go
    // there.
    if (launch_of_process().by == Launch::By::launcher || ::isatty(STDOUT_FILENO) == 0)
      records_.add("standard output", line_sink(STDOUT_FILENO, "standard output"));
    if (config.log.tensorboard) records_.add("TensorBoard", tensorboard_sink(folder_ / "tensorboard"));
  });
}

void RunFiles::close_records() {
  records_.close();
  try {
    require_in_place();
    publish_file(folder_ / "loss.svg", curve_svg(loss_labels(), loss_series(folder_)));
  } catch (const Error& error) {  // all that is in it is in the records
    log_.warning("loss.svg is not drawn: {}", error.what());
  }
}

std::optional<RunFiles::Identity> RunFiles::identity_of(const Path& folder) {
  struct stat status{};
  if (::stat(folder.c_str(), &status) == 0) return Identity{status.st_dev, status.st_ino};
  if (errno != ENOENT && errno != ENOTDIR) fail_errno("look at", folder.string());
  return std::nullopt;
}

void RunFiles::require_in_place() const {
  if (!identity_) return;
  const std::optional<Identity> now = identity_of(folder_);
  if (now == identity_) return;
  throw Error(ExitCode::storage,
              now ? fmt::format("another folder took the name of the run folder {} while this job works in it",
                                folder_.string())
                  : fmt::format("the run folder {} was moved or removed while this job works in it", folder_.string()),
              "give the folder its name back: saves go on where it is found");
}

void RunFiles::close() {
  if (!identity_) return;
  if (owns_records_) close_records();
  try {
    constexpr double limit_s = 30;  // other ranks wait for the end of the job
    if (!trash_->empty(limit_s))
      log_.info("older checkpoints are not all deleted yet: what is left in {} is named .trash-*",
                checkpoints_folder(folder_).string());
  } catch (const Error& error) {
    log_.warning("older checkpoints are not all deleted: {}", error.what());
  }
}

}  // namespace lockstep
