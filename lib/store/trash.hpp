// Trash: what a save or a job leaves in RUN/checkpoints and nothing needs any more. It gets a name that says so in one
// step; deleting it, which takes long, comes behind what the process does.
#pragma once

#include "base/files.hpp"

#include <limits>
#include <memory>
#include <string>

namespace lockstep {

/// A free name beside the path, under which nothing is found any more: .trash-NAME-RANDOM.
Path trash_name(const Path& path);
bool is_trash(const Path& path);

/// Deletes all trash in RUN/checkpoints now. Throws Error(storage).
void empty_trash(const Path& run);

/// Deletes trash in a thread of its own, at a fifth of the storage's time at most. Without communication. Local.
class TrashCollector {
 public:
  explicit TrashCollector(Path run);
  /// Stops where it is: what is left is still trash, which the next job finds.
  ~TrashCollector();
  void wake();  // there may be trash
  /// Deletes all there is without pauses, and returns true, or false where the limit came first. Throws Error(storage).
  bool empty(double limit_s = std::numeric_limits<double>::infinity());
  /// Why something could not be deleted, since it was last asked; empty if nothing is the matter.
  std::string problem();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
