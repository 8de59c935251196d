// WorkFolder is a hidden folder beside an output. A job that is killed leaves its work there for the next job with the
// same work. The output itself: base/output_folder.hpp.
#pragma once

#include "base/files.hpp"

#include <string>

namespace lockstep {

class WorkFolder {
 public:
  /// Opens the folder of the work `key` (letters and digits) beside the target: the one that a killed job has left, or
  /// a new one. The caller holds the lock of the target. Local. Throws Error(storage), Error(usage) if another program
  /// made it.
  WorkFolder(const Path& target, const std::string& key);
  /// Removes the folder unless keep() was called.
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const Path& path() const { return path_; }
  /// Keeps the folder for the next job, because this one was asked to stop.
  void keep() { is_kept_ = true; }

 private:
  Path path_;
  bool is_kept_ = false;
};

/// Removes the work folders beside the target, except `kept`. The caller holds the lock of the target. Local. Throws
/// Error(storage).
void remove_work_beside(const Path& target, const Path& kept = {});

}  // namespace lockstep
