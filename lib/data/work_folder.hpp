// A hidden folder beside an output for what a job that is killed leaves to the next one with the same work.
#pragma once

#include "base/files.hpp"

#include <string>

namespace lockstep {

class WorkFolder {
 public:
  /// The folder of the work `key`, of letters and digits, beside the target: the one that a killed job has left, or a
  /// new one. The caller holds the lock of the target. Local. Throws Error(storage), Error(usage) if it is a
  /// stranger's.
  WorkFolder(const Path& target, const std::string& key);
  /// Removes it, unless it is to be kept.
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const Path& path() const { return path_; }
  /// Leaves the folder to the next job, for this one was asked to stop.
  void keep() { is_kept_ = true; }

 private:
  Path path_;
  bool is_kept_ = false;
};

/// Removes what jobs have left beside the target, but for `kept`. The caller holds its lock. Local. Throws
/// Error(storage).
void remove_work_beside(const Path& target, const Path& kept = {});

}  // namespace lockstep
