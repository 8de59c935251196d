// StartWatch ends a job whose ranks do not find each other. Before MPI has connected them no rank can ask another one
// where it is, but it can look at the processes that the launcher started on its machine. Once the ranks are connected
// the watchdog of comm/session.hpp takes over.
#pragma once

#include "comm/session.hpp"

#include <functional>
#include <memory>
#include <string>

namespace lockstep {

class StartWatch {
 public:
  struct Settings {
    double limit_s = 600;                                  // 0: none
    std::string place = "MPI_Init";                        // where the ranks wait for each other
    std::function<void(const Session::End&)> on_end = {};  // called by the rank that explains the end
  };

  /// Starts the clock. If this object still exists at the limit, the lowest rank of the machine that waits prints which
  /// ranks have not come, calls on_end and ends its process with code 7; the launcher ends the others. The other ranks
  /// of the machine leave this to it for 15 s; a machine whose ranks have all come leaves it to the others for 5 s.
  /// Local.
  explicit StartWatch(Settings settings);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
