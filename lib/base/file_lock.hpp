// FileLock is a lock that one process holds at a time, on any machine that sees the folder. A killed process loses it.
// It uses flock(2) if the file system supports it, otherwise a lease: a file whose modification time the holder
// refreshes.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"

#include <memory>
#include <string>

namespace lockstep {

/// LockHeld is the Error(usage) that another process holds a lock. A caller that waits may try again.
class LockHeld : public Error {
 public:
  LockHeld(const std::string& what, const std::string& holder, const std::string& hint)
      : Error(ExitCode::usage, fmt::format("{} by {}", what, holder), hint), holder_(holder) {}
  const std::string& holder() const { return holder_; }  // "process 4711 on node17 since …"

 private:
  std::string holder_;
};

class FileLock {
 public:
  /// LeaseTimes are the times of a lease. A holder that does not refresh it for the patience of another process loses
  /// it to that process.
  struct LeaseTimes {
    double refresh_s = 5;
    double patience_s = 40;
  };

  /// Takes the lock `path`, a file that exists while the lock is held. Throws LockHeld "WHAT by process … on … since
  /// …", with the hint, if another process holds it; Error(usage) if the file is not a lock; Error(storage) with the
  /// reason given by the system. Waits for a lease of another machine, at most for the patience. Local.
  FileLock(const Path& path, const std::string& what, const std::string& hint, const LeaseTimes& times);
  FileLock(const Path& path, const std::string& what, const std::string& hint)
      : FileLock(path, what, hint, LeaseTimes()) {}
  FileLock(FileLock&&) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  /// Releases the lock and removes its file.
  ~FileLock();

  /// Returns whether the lock is still held. It is lost if the holder of a lease was stopped for longer than the
  /// patience of another process, or if the file was removed. Throws Error(storage).
  bool is_held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
