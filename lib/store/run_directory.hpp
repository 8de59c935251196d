// A run's folder: RUN/checkpoints/step-N, staged and failed saves beside them, the advice LATEST, the lock that keeps a
// second job out. store/checkpoint_verify.hpp says what makes a checkpoint sound, checkpoint/resume.hpp which one a job
// goes on from.
#pragma once

#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "store/manifest.hpp"
#include "store/verdict.hpp"

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

/// The same, newest first.
std::vector<CheckpointEntry> newest_first(std::vector<CheckpointEntry> entries);
/// Those that have a value of `metric`, measured on the same samples as that of the newest: least first, of equal ones
/// the older first. Reads manifests; damaged ones have no value. Local. Throws Error(storage), Error(usage) as reading
/// them does.
std::vector<CheckpointEntry> best_first(const std::vector<CheckpointEntry>& entries, const std::string& metric);

/// A checkpoint that is damaged, and why.
struct PassedOver {
  CheckpointEntry checkpoint;
  std::string reason;
};
std::string to_text(const PassedOver& passed);  // "PATH: why"

struct Found {
  std::optional<CheckpointEntry> checkpoint;  // nothing: none is sound
  std::vector<PassedOver> damaged;            // those that came before it
};
using Judge = std::function<Judgement(const Path&)>;
/// The first of the candidates that is sound; damaged ones are passed over. Throws the error of one that is unreadable
/// or foreign before that: nobody knows whether it should have been taken.
Found first_sound(const std::vector<CheckpointEntry>& candidates, const Judge& judge);
/// The checkpoint in this folder, or the newest sound one of the run in it, for programs of one process. Throws
/// Error(input) if there is none or it is damaged, and as first_sound does. Local.
Found find_at(const Path& path, const Judge& judge);
/// The step of a checkpoint of this run, whatever path names it; nothing if it is another's. Local.
std::optional<std::int64_t> step_within(const Path& checkpoint, const Path& run);

/// Renames a damaged checkpoint to a free name .failed-…, under which it stays until a person removes it; returns the
/// new path. Throws Error(storage).
Path put_aside(const Path& checkpoint);
/// The checkpoints that were put aside, by name. Throws Error(storage).
std::vector<Path> list_put_aside(const Path& run);

/// Retention says what a save keeps of older checkpoints, besides the newest.
struct Retention {
  std::int64_t keep_last = 2;                   // at least 1
  std::string best_metric = "validation_loss";  // the checkpoint with its smallest value stays, as "best" finds it
  std::vector<std::int64_t> pinned = {};        // steps that stay
};
/// Returns which checkpoints may go. Pure. `sound` says which were verified; the newest sound one always stays.
std::vector<CheckpointEntry> prunable(const std::vector<CheckpointEntry>& entries, const Retention& retention,
                                      const std::function<bool(const CheckpointEntry&)>& sound,
                                      const std::function<std::optional<double>(const CheckpointEntry&)>& metric);
/// Renames each victim to .trash-…, then sweeps. A checkpoint that cannot be read is no victim. Returns the removed
/// steps. Throws Error(storage).
std::vector<std::int64_t> prune(const Path& run, const Retention& retention);
/// Deletes what earlier saves and jobs left staged or in the trash. No save may be under way. Throws Error(storage).
void sweep(const Path& run);

/// Writes the advice RUN/checkpoints/LATEST. Throws Error(storage).
void advise_latest(const Path& run, std::int64_t step);

/// Keeps a second job out of a run's folder while it lives; it is gone with a job that is killed. Creates the folder if
/// need be. Throws Error(usage) naming host, process and start of the holder, Error(storage).
FileLock lock_run(const Path& run);

}  // namespace lockstep
