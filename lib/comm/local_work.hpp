// LocalWork marks work that must not communicate. A collective called inside it then fails at once instead of hanging
// the job.
#pragma once

namespace lockstep {

/// While an object exists, collectives of this thread throw Error(bug).
class LocalWork {
 public:
  LocalWork();
  ~LocalWork();
  LocalWork(const LocalWork&) = delete;
  LocalWork& operator=(const LocalWork&) = delete;

  /// Throws Error(bug) if this thread is inside local work.
  static void forbid_collective(const char* collective);
};

}  // namespace lockstep
