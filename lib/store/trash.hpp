// Trash is anything in RUN/checkpoints that a save or a job leaves and that is no longer needed. One rename marks it;
// the deletion, which takes long, happens in the background.
#pragma once

#include "base/files.hpp"

#include <limits>
#include <memory>
#include <string>

namespace lockstep {

/// Returns a free name next to the path that no reader recognises: .trash-NAME-RANDOM.
Path trash_name(const Path& path);
bool is_trash(const Path& path);

/// Deletes all trash in RUN/checkpoints now. Throws Error(storage).
void empty_trash(const Path& run);

/// Deletes trash on a thread of its own, which uses the storage at most a fifth of the time. No communication. Local.
class TrashCollector {
 public:
  explicit TrashCollector(Path run);
  /// Stops at once; the remaining files are still trash, which the next job deletes.
  ~TrashCollector();
  void wake();  // call it when there may be trash
  /// Deletes all trash without pauses. Returns true, or false if it reached the limit. Throws Error(storage).
  bool empty(double limit_s = std::numeric_limits<double>::infinity());
  /// Returns the last reason for a failed deletion since the previous call; empty if there was none.
  std::string problem();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
