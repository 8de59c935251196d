// OutputFolder is a folder that is published completely or not at all: it is filled under a random hidden name beside
// its target and renamed. An earlier folder of its kind is replaced in the same step; files that the program did not
// write are never removed.
#pragma once

#include "base/file_lock.hpp"
#include "base/files.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace lockstep {

enum class Existing { refuse, replace };

/// OutputKind describes a complete output folder.
struct OutputKind {
  std::string name;    // in messages: "dataset"
  std::string marker;  // a file that every complete one has
  /// The files, relative to a complete folder, that the program wrote. A folder is replaced only if it holds nothing
  /// else. Empty: no folder is ever replaced.
  std::function<std::set<Path>(const Path& folder)> files;
};

/// Throws Error(usage) if the target is taken, that is, if it is anything but an empty folder. With `replace` it may
/// also be a folder of this kind without foreign files. Writes nothing. Local.
void check_target(const Path& target, const OutputKind& kind, Existing existing);

class OutputFolder {
 public:
  /// Locks the target, removes leftovers of killed processes beside it, moves back an earlier folder that they had
  /// moved away, and creates the hidden folder. Throws Error(usage) if the target is taken, LockHeld if another process
  /// is making it, Error(storage). Local.
  OutputFolder(const Path& target, OutputKind kind, Existing existing);
  /// Removes the hidden folder and its contents, except an earlier folder that publish could not move back.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  Path content() const { return stage_ / "content"; }  // becomes the target
  Path scratch() const { return stage_ / "scratch"; }  // beside it, for temporary files
  /// Synchronises the names in the content and renames it into place; the files in it must be durable. If the file
  /// system cannot exchange two folders, the earlier one has only a hidden name for a moment. If the process is killed
  /// then, the next process moves it back. Throws Error(storage); the target is unchanged then, or the message says
  /// where the earlier folder lies.
  void publish();

 private:
  void replace();
  void exchange_or_move();

  Path target_;
  OutputKind kind_;
  Existing existing_;
  std::optional<FileLock> lock_;
  Path stage_;
  std::optional<Path> kept_;  // in it: an earlier folder that could not be moved back
};

/// Removes leftovers of killed processes beside the target, and calls `more`, which may remove more. Does nothing if
/// another process is making the target. Local. Throws Error(storage).
void clean_up_beside(const Path& target, const std::function<void()>& more);

/// Returns the earlier folder that a killed process has moved away from the target without moving it back. Local.
std::optional<Path> moved_away_from(const Path& target);

}  // namespace lockstep
