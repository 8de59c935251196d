// A name that one process holds at a time, on any machine that sees the folder; a killed process holds it no longer. By
// flock(2) where the file system has it, else by a lease: a file whose holder keeps its time fresh.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"

#include <memory>
#include <string>

namespace lockstep {

/// LockHeld is the Error(usage) that another process holds a lock: who waits may try again.
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
  /// Of a lease; a holder that did not refresh it for all the patience of another process has lost it to that one.
  struct LeaseTimes {
    double refresh_s = 5;
    double patience_s = 40;
  };

  /// Takes the lock `path`, a file that exists while it is held. Throws LockHeld "WHAT by process … on … since …",
  /// with the hint, if another process holds it; Error(usage) if the file is no lock; Error(storage) with the reason of
  /// the system. Waits for a lease of another machine, for the patience at most. Local.
  FileLock(const Path& path, const std::string& what, const std::string& hint, const LeaseTimes& times);
  FileLock(const Path& path, const std::string& what, const std::string& hint)
      : FileLock(path, what, hint, LeaseTimes()) {}
  FileLock(FileLock&&) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  /// Gives the lock back and removes its file.
  ~FileLock();

  /// Whether nobody took it away: a lease whose holder was stopped for longer than the patience of others, or a file
  /// that was removed. Throws Error(storage).
  bool is_held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
