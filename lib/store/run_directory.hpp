// A run's folder: RUN/checkpoints/step-N, staged and failed saves beside them, the advice LATEST, the lock that keeps a
// second job out. Which checkpoint is newest and sound: find_checkpoint; what makes one sound:
// store/checkpoint_verify.hpp.
#pragma once

#include "base/files.hpp"
#include "store/manifest.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct CheckpointEntry {
  Path path;
  std::int64_t step = 0;
};

Path checkpoints_folder(const Path& run);                    // RUN/checkpoints
Path checkpoint_folder(const Path& run, std::int64_t step);  // RUN/checkpoints/step-0000012000
Path staging_folder(const Path& run, std::int64_t step,
                    const std::string& uuid);  // RUN/checkpoints/.stage-0000012000-UUID
/// The step that the name of a checkpoint's folder says; nothing if it is no such name.
std::optional<std::int64_t> step_of(const Path& checkpoint);

/// The committed checkpoints of a run in the order of their steps; sound or not, complete names only. Empty if there is
/// no run.
std::vector<CheckpointEntry> list_checkpoints(const Path& run);

/// Which checkpoint is meant: "latest", "best", a step number, or the folder of a checkpoint or run.
struct Found {
  std::optional<CheckpointEntry> checkpoint;  // nothing: the run has none
  std::vector<std::string> rejected;          // newer ones that are damaged, each with the reason
};
/// The newest checkpoint for which `defect` finds nothing. Local.
Found find_latest(const Path& run, const std::function<std::optional<std::string>(const Path&)>& defect);
/// The checkpoint in this folder, or the newest sound one of the run in it. Throws Error(input) if there is none, or it
/// is damaged.
Found find_at(const Path& path, const std::function<std::optional<std::string>(const Path&)>& defect);
/// As `which` says; "best": by the smallest value of `metric` among sound ones that measured it on the same samples as
/// the newest. Throws Error(input) if a named one is
/// absent or damaged.
Found find_checkpoint(const Path& run, const std::string& which, const std::string& metric,
                      const std::function<std::optional<std::string>(const Path&)>& defect);

/// What a save keeps of older checkpoints, besides the newest.
struct Retention {
  std::int64_t keep_last = 2;                   // at least 1
  std::string best_metric = "validation_loss";  // the checkpoint with its smallest value stays, as "best" finds it
  std::vector<std::int64_t> pinned = {};        // steps that stay
};
/// Which checkpoints may go: pure. `sound` says which were verified; the newest sound one always stays.
std::vector<CheckpointEntry> prunable(const std::vector<CheckpointEntry>& entries, const Retention& retention,
                                      const std::function<bool(const CheckpointEntry&)>& sound,
                                      const std::function<std::optional<double>(const CheckpointEntry&)>& metric);
/// Renames each victim to .trash-…, then sweeps. Returns the removed steps. Throws Error(storage).
std::vector<std::int64_t> prune(const Path& run, const Retention& retention);
/// Deletes what earlier saves and jobs left staged or in the trash, and all but the last of the damaged checkpoints put
/// aside as .failed-…. No save may be under way. Throws Error(storage).
void sweep(const Path& run);

/// Writes the advice RUN/checkpoints/LATEST. Throws Error(storage).
void advise_latest(const Path& run, std::int64_t step);

/// Keeps a second job out of a run's folder while it lives, also if the job is killed.
class RunLock {
 public:
  /// Creates the folder if need be. Throws Error(usage) naming host, process and start of the holder.
  explicit RunLock(const Path& run);

 private:
  FileDescriptor file_;
};

}  // namespace lockstep
