// A run's folder: RUN/checkpoints/step-N, staged and failed saves beside them, the advice LATEST, the lock that keeps a
// second job out. store/checkpoint_verify.hpp says what makes a checkpoint sound, store/retention.hpp which ones stay,
// checkpoint/resume.hpp which one a job goes on from.
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
/// Where a checkpoint waits while another takes its name: .displaced-step-0000012000-RANDOM.
Path displaced_name(const Path& checkpoint);
/// The step that the name of a checkpoint's folder says; nothing if it is no such name.
std::optional<std::int64_t> step_of(const Path& checkpoint);

/// The committed checkpoints of a run in the order of their steps; sound or not, complete names only. Empty if there is
/// no run.
std::vector<CheckpointEntry> list_checkpoints(const Path& run);

/// The same, newest first.
std::vector<CheckpointEntry> newest_first(std::vector<CheckpointEntry> entries);
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

/// Why a checkpoint is put aside.
enum class Aside {
  damaged,  // .failed-…
  former,   // .former-…: of a run that was started afresh
};
/// Renames a checkpoint to a free name that says why, under which it stays until a person removes it; returns the new
/// path. Throws Error(storage).
Path put_aside(const Path& checkpoint, Aside why);
/// The checkpoints that were put aside for that reason, by name. Throws Error(storage).
std::vector<Path> list_put_aside(const Path& run, Aside why);

/// Takes back a checkpoint that a kill has caught between two names, and makes trash of what earlier jobs left: staged
/// saves, displaced checkpoints, advice half written. No save of this run may be under way. Throws Error(storage).
void collect_leftovers(const Path& run);

/// Writes the advice RUN/checkpoints/LATEST. Throws Error(storage).
void advise_latest(const Path& run, std::int64_t step);

/// Keeps a second job out of a run's folder while it lives; it is gone with a job that is killed. Creates the folder if
/// need be. Throws Error(usage) naming host, process and start of the holder, Error(storage).
FileLock lock_run(const Path& run);

}  // namespace lockstep
