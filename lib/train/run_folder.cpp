#include "train/run_folder.hpp"

#include "base/error.hpp"
#include "base/own_files.hpp"
#include "checkpoint/node_view.hpp"
#include "comm/together.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace lockstep {

namespace {

void require_own_storage_for(RunFolder::Purpose use, Communicator& world, const RunStorage& storage, const Path& path) {
  switch (use) {
    case RunFolder::Purpose::run:
      return require_own_storage(
          world, storage, path, "checkpoint.storage is per_node",
          "use checkpoint.storage shared for storage that all ranks see; per_node needs a path on disks of the nodes");
    case RunFolder::Purpose::local_tier:
      return require_own_storage(world, storage, path, "checkpoint.local_dir must be on storage of each node",
                                 "set a path on disks of the nodes, or leave it out");
  }
}

}  // namespace

RunFolder::RunFolder(Communicator& world, Purpose use, const Path& path, RunStorage storage, Log& log)
    : path_(path), storage_(std::move(storage)), log_(log) {
  if (!storage_.is_shared()) require_own_storage_for(use, world, storage_, path_);
  const bool keeps = storage_.keeps(world.rank());
  together(world, "lock the run directory", [&] {
    if (!keeps) return;
    lock_.emplace(lock_run(path_));
    identity_ = identity_of(path_);
  });
  if (!storage_.is_shared())
    for (const Path& checkpoint : finish_publications(world, storage_, path_))
      log_.warning("{} was saved on all nodes, but published only on others: publishing it here too",
                   checkpoint.string());
  together(world, "clear the run directory", [&] {
    if (!keeps) return;
    trash_.emplace(path_);
    clear_away();
  });
}

/// A start that goes well does not depend on it: saves clear away too, and say so where they cannot.
void RunFolder::clear_away() {
  try {
    remove_temporaries(path_);
    collect_leftovers(path_);
    trash_->wake();
  } catch (const Error& error) {
    log_.warning("cannot remove the leftovers of earlier jobs: {}", error.what());
  }
}

std::optional<RunFolder::Identity> RunFolder::identity_of(const Path& folder) {
  struct stat status{};
  if (::stat(folder.c_str(), &status) == 0) return Identity{status.st_dev, status.st_ino};
  if (errno != ENOENT && errno != ENOTDIR) fail_errno("check", folder.string());
  return std::nullopt;
}

void RunFolder::require_in_place() const {
  if (!identity_) return;
  const std::optional<Identity> now = identity_of(path_);
  if (now == identity_) return;
  throw Error(ExitCode::storage,
              now ? fmt::format("another folder has taken the name of the run folder {} while this job works in it",
                                path_.string())
                  : fmt::format("the run folder {} was moved or removed while this job works in it", path_.string()),
              "rename the folder back: saves continue when it is found");
}

void RunFolder::close() {
  if (!trash_) return;
  try {
    constexpr double limit_s = 30;  // other ranks wait for the end of the job
    if (!trash_->empty(limit_s))
      log_.info("older checkpoints are not all deleted yet: the rest is in {}, named .trash-*",
                checkpoints_folder(path_).string());
  } catch (const Error& error) {
    log_.warning("cannot delete all older checkpoints: {}", error.what());
  }
}

}  // namespace lockstep
