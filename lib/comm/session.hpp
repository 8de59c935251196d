// What a running program has of its job: its communicator, the name of what it is doing now, the deadline for that, and the stop
// requests of the outside. One per process, made by app, passed down; nothing of it is global except what a signal handler needs.
#pragma once

#include "comm/communicator.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// Where a rank is. The same words in the watchdog's report, in status.json and in the injection option.
enum class Phase { start_up, data, forward, backward, reduction, optimizer, heartbeat, evaluation, sample,
                   save_plan, save_stage, save_write, save_seal, save_commit, load, shutdown };
std::string_view name_of(Phase phase);                             // "start-up", "save.write", …
std::optional<Phase> parse_phase(std::string_view name);

/// A failure to bring about, for tests: --inject rank=1,phase=forward,step=3,kind=throw. Kinds: throw, exit, stall, nan, kill, stop.
struct Injection {
  enum class Kind { raise, exit, stall, nan, kill, stop } kind = Kind::raise;
  int rank = 0;
  Phase phase = Phase::start_up;
  std::int64_t step = 0;
  int code = 9;                                                    // of kind exit
};
/// Throws Error(usage) that lists the accepted words.
Injection parse_injection(const std::string& text);

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
  void configure(const Settings& settings);                        // Local; starts or re-arms the watchdog thread
  /// Says what the rank does from now on and restarts the deadline; brings an injected failure about if it is due here. Local.
  /// `step` is -1 outside steps. May throw (that is the injection's purpose).
  void enter(Phase phase, std::int64_t step = -1);
  Phase phase() const;                                             // Local
  /// True once if an injected NaN is due: the caller poisons its numbers. Local.
  bool take_injected_nan();
  /// The strongest request that this process has received by signal (USR1, TERM, INT) or request_stop. Local.
  StopLevel stop_level() const;
  void request_stop(StopLevel level);                              // Local
  /// Called on the watchdog's thread with the last word before the process ends (status.json); must not communicate.
  void on_abort(std::function<void(const std::string& explanation, int code)> callback);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
