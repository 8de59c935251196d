// The work of a storage keeper in the folder of a run: make room before a checkpoint is staged, commit it, and clean up
// after the commit. A failure after the commit does not undo it. All functions are Local. Callers:
// checkpoint/save_stages.hpp, checkpoint/promote.hpp.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "store/retention.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Runs `work`. If it fails, the error is added to `problems` for the report and nothing is thrown.
template <class Work>
void attempt(std::vector<std::string>& problems, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
}

/// Deletes all trash of the run before it returns. `trash` is the collector that otherwise deletes it in the
/// background; it may be null. Throws Error(storage).
void empty_trash_now(const Path& run, TrashCollector* trash);

/// Returns the retention to apply when there is no room for a new checkpoint: keep_last is one less, but at least 1.
Retention without_one(Retention retention);

/// Removes leftovers of killed jobs, and trash if there is no room for `bytes`. Returns whether there is room then.
/// `is_scarce` means that there is none, even if the file system reports free space. Throws Error(storage).
bool clear_room(const Path& run, std::uint64_t bytes, bool is_scarce, TrashCollector* trash);

/// Makes room where one keeper decides alone: calls clear_room and, if that is not enough, removes older checkpoints.
/// Returns their steps. Never throws: the commit tries again to remove files that stayed, and reports them.
std::vector<std::int64_t> make_room(const Path& run, std::uint64_t bytes, bool is_scarce, const Retention& retention,
                                    TrashCollector* trash);

/// Moves these checkpoints, if they exist, to trash.
void remove_steps(const Path& run, const std::vector<std::int64_t>& steps, std::vector<std::string>& problems);

/// Removes leftovers, then wakes the trash collector, or deletes the trash if there is none.
void clear_away(const Path& run, TrashCollector* trash, std::vector<std::string>& problems);

struct Committed {
  std::vector<std::int64_t> pruned;
  std::vector<std::string> problems;
};
/// Renames the staged folder, with its manifest, to the checkpoint of `step`. Then writes the file LATEST and applies
/// retention. Throws Error(storage) if the rename fails.
Committed commit_staged(const Path& staging, const Path& run, std::int64_t step, const Retention& retention,
                        TrashCollector* trash);

}  // namespace lockstep
