// Signals that ask the job to stop, counted by handlers that do nothing else. comm/session.hpp decides on them.
#pragma once

#include <array>
#include <csignal>
#include <string_view>

namespace lockstep {

/// Handles USR1, TERM, INT and (unless it is ignored) HUP during its life, and restores the previous handlers
/// afterwards. One object at a time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The number of requests that have arrived. A third one ends the process at once, as the signal would by default.
  /// Local.
  int count() const;
  /// The name of the signal of the first request, such as "SIGUSR1"; empty: none. Local.
  std::string_view first() const;

 private:
  std::array<struct sigaction, 4> before_{};
};

}  // namespace lockstep
