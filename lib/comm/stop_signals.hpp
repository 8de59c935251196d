// Signals that ask the job to stop, counted by handlers that do nothing else. Who decides on them: comm/session.hpp.
#pragma once

#include <array>
#include <csignal>

namespace lockstep {

/// Takes USR1, TERM, INT and, unless it is ignored, HUP over for its life and gives them back afterwards. One at a time
/// in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// How many requests have arrived. A third one ends the process at once, as the signal would have without us. Local.
  int count() const;

 private:
  std::array<struct sigaction, 4> before_{};
};

}  // namespace lockstep
