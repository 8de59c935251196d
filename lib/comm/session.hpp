// What a running program has of its job: its communicator, the name of what it is doing now, the deadline for that, and the stop
// requests of the outside. One per process, made by app, passed down; nothing of it is global except what a signal handler needs.
// Failures to bring about for tests: comm/injection.hpp. From all stop requests to one decision: comm/stop.hpp and comm/heartbeat.hpp.
#pragma once

#include "comm/communicator.hpp"
#include "comm/injection.hpp"
#include "comm/phase.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// How firmly the job was asked to stop. Merged over ranks by maximum in the heartbeat.
enum class StopLevel : int { none = 0, after_step = 1, now = 2 };

class Session {
 public:
  struct Settings {
    double watchdog_s = 600;                                       // deadline of a phase; 0 switches the watchdog off
    std::optional<Injection> injection;
  };
  /// Local. `world` as MPI (or a test) gave it.
  explicit Session(std::unique_ptr<Communicator> world);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Communicator& world();
  /// Starts or re-arms the watchdog thread. At the deadline of a phase it prints rank, host, phase, step and how long, gives the other
  /// ranks a moment to print theirs, and ends the job with code 7. Local.
  void configure(const Settings& settings);
  /// From now until the end of the session USR1, TERM and INT are requests to stop: the first after the step, the second now, the third
  /// ends the process. A repetition within 0.2 s is the same request, sent by both launcher and queue. Local.
  void accept_stop_signals();
  /// Says what the rank does from now on and restarts the deadline; brings an injected failure about if it is due here. Local.
  /// `step` is -1 outside steps. May throw (that is the injection's purpose).
  void enter(Phase phase, std::int64_t step = -1);
  Phase phase() const;                                             // Local
  std::int64_t step() const;                                       // Local
  double seconds() const;                                          // Local; since the session began
  /// "rank 1 (node17), forward of step 3"; without the rank in a job of one. Local.
  std::string where() const;
  /// True once if an injected NaN is due: the caller poisons its numbers. Local.
  bool take_injected_nan();
  /// The strongest request that this process has received by signal or request_stop. Local.
  StopLevel stop_level() const;
  void request_stop(StopLevel level);                              // Local
  /// Called with the outcome when the job ends (status.json): where all ranks agree on it, on the one rank that explains it (with
  /// success, rank 0); where a rank has to end the job alone, on that rank and perhaps on another thread. Must not communicate. Local.
  void on_end(std::function<void(const std::string& explanation, int code)> callback);
  /// Calls it; app does, when a tool has returned. Local.
  void tell_end(const std::string& explanation, int code) noexcept;
  /// Prints `explanation`, tells on_end and ends the whole job with `code`, asking nobody: for a rank whose failure the others cannot
  /// learn of otherwise. Local; from any thread; the first caller wins.
  [[noreturn]] void last_word(const std::string& explanation, int code) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
