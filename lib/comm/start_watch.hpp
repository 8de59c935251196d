// StartWatch ends a job whose ranks do not find each other. Before MPI has connected them, no rank can ask another one
// for its status, but it can look at the processes that the launcher started on its machine. Once the ranks are
// connected, the watchdog of comm/session.hpp takes over.
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

  /// Starts the clock. If this object still exists at the limit, the lowest waiting rank of the machine prints the
  /// missing ranks, calls on_end and ends its process with code 7; the launcher ends the others. The other ranks of the
  /// machine wait 15 s for it. A machine whose own ranks have all arrived waits another 5 s for other machines. Local.
  explicit StartWatch(Settings settings);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
