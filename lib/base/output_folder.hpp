// A folder that appears whole or not at all: filled under a random hidden name beside its target and renamed into it.
// An earlier folder of its kind gives way in the same step; what the program did not write there is never removed.
#pragma once

#include "base/file_lock.hpp"
#include "base/files.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>

namespace lockstep {

enum class Existing { refuse, replace };

/// What an output folder holds once it is complete.
struct OutputKind {
  std::string name;    // in messages: "dataset"
  std::string marker;  // a file that every complete one has
  /// The files of a complete folder, relative to it, that the program wrote: what is to be replaced holds nothing else.
  /// Empty if none is ever replaced.
  std::function<std::set<Path>(const Path& folder)> files;
};

/// Throws Error(usage) if the target is taken: by anything but an empty folder, or, where it may be replaced, a folder
/// of this kind that holds nothing foreign. Writes nothing. Local.
void check_target(const Path& target, const OutputKind& kind, Existing existing);

class OutputFolder {
 public:
  /// Locks the target, removes what killed processes left beside it, puts back an earlier folder that they had moved
  /// away, and makes the hidden folder. Throws Error(usage) if the target is taken, LockHeld if another process is
  /// making it, Error(storage). Local.
  OutputFolder(const Path& target, OutputKind kind, Existing existing);
  /// Removes the hidden folder and what is left in it, but not an earlier folder that publish could not put back.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  Path content() const { return stage_ / "content"; }  // becomes the target
  Path scratch() const { return stage_ / "scratch"; }  // beside it, for what does not last
  /// Synchronises the content's own names and renames it into place: what it holds has to be durable. Where the file
  /// system cannot exchange two folders, the earlier one is for a moment only under a hidden name; a process that is
  /// killed then leaves it to the next one, which puts it back. Throws Error(storage), and the target is as it was, or
  /// the message says where the earlier folder lies.
  void publish();

 private:
  void replace();
  void exchange_or_move();

  Path target_;
  OutputKind kind_;
  Existing existing_;
  std::optional<FileLock> lock_;
  Path stage_;
  std::optional<Path> kept_;  // in it: an earlier folder that could not be put back
};

/// Removes what killed processes left beside the target, and runs `more`, which may remove more; nothing if another
/// process is making the target. Local. Throws Error(storage).
void clean_up_beside(const Path& target, const std::function<void()>& more);

/// An earlier folder that a killed process had moved away from the target and could not bring back. Local.
std::optional<Path> moved_away_from(const Path& target);

}  // namespace lockstep
