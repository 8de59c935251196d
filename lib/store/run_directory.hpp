// The folder of a run: RUN/checkpoints/step-N, staged and failed saves next to them, the file LATEST, and the lock that
// keeps a second job out. Soundness of a checkpoint: store/checkpoint_verify.hpp. Which checkpoints stay:
// store/retention.hpp. Which one a job resumes from: checkpoint/resume.hpp.
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
/// Returns RUN/checkpoints/.stage-0000012000-UUID.
Path staging_folder(const Path& run, std::int64_t step, const std::string& uuid);
/// Returns the name of a checkpoint that waits while another takes its place: .displaced-step-0000012000-RANDOM.
Path displaced_name(const Path& checkpoint);
/// Returns the step in the name of a checkpoint's folder; nothing if the name has another form.
std::optional<std::int64_t> step_of(const Path& checkpoint);

/// Returns the committed checkpoints of a run in the order of their steps, sound or not; only complete names count.
/// Empty if the run does not exist, or for an empty path.
std::vector<CheckpointEntry> list_checkpoints(const Path& run);

/// Returns the entries in reverse order, newest first.
std::vector<CheckpointEntry> newest_first(std::vector<CheckpointEntry> entries);
/// A damaged checkpoint that was skipped, and why.
struct SkippedCheckpoint {
  CheckpointEntry checkpoint;
  std::string reason;
};
std::string to_text(const SkippedCheckpoint& passed);  // "PATH: why"

struct Found {
  std::optional<CheckpointEntry> checkpoint;  // not set: none is sound
  std::vector<SkippedCheckpoint> damaged;     // checkpoints that were skipped before it
};
using Judge = std::function<Judgement(const Path&)>;
/// Returns the first sound candidate; damaged ones are skipped. Throws the error of an unreadable or foreign candidate
/// that comes before it, because that one might have been the right choice.
Found first_sound(const std::vector<CheckpointEntry>& candidates, const Judge& judge);
/// Returns the checkpoint in this folder, or the newest sound one of the run in it, for programs of one process. Throws
/// Error(input) if there is none or it is damaged, and as first_sound does. Local.
Found find_at(const Path& path, const Judge& judge);
/// Returns the step if `checkpoint`, under any path, belongs to this run; nothing otherwise. Local.
std::optional<std::int64_t> step_within(const Path& checkpoint, const Path& run);

/// The reason for putting a checkpoint aside.
enum class SetAsideReason {
  damaged,  // .failed-…
  former,   // .former-…: of a run that was started again from scratch
};
/// Renames a checkpoint to a free name with the reason; it stays there until a person removes it. Returns the new path.
/// Throws Error(storage).
Path put_aside(const Path& checkpoint, SetAsideReason why);
/// Returns the checkpoints that were put aside for that reason, by name. Throws Error(storage).
std::vector<Path> list_put_aside(const Path& run, SetAsideReason why);

/// Restores a checkpoint that a kill left between two names. Moves leftovers of earlier jobs to trash: staged saves and
/// displaced checkpoints; deletes a half-written LATEST. No save of this run may be running. Throws Error(storage).
void collect_leftovers(const Path& run);

/// Writes the name of the checkpoint of `step` to RUN/checkpoints/LATEST, as advice for people and scripts. Throws
/// Error(storage).
void write_latest(const Path& run, std::int64_t step);

/// Keeps a second job out of a run's folder as long as the lock lives; it ends with a killed job. Creates the folder if
/// necessary. Throws Error(usage) naming host, process and start time of the holder, Error(storage).
FileLock lock_run(const Path& run);

}  // namespace lockstep
