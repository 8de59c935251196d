// Session is what a running program has of its job: the communicator, the phase that it is in, the deadline for that,
// and the stop requests of the outside. app makes one per process and passes it down; nothing of it is global except
// what a signal handler needs. Failures to bring about for tests: comm/injection.hpp. From all stop requests to one
// decision: comm/stop.hpp and comm/heartbeat.hpp.
#pragma once

#include "base/files.hpp"
#include "comm/communicator.hpp"
#include "comm/failure.hpp"
#include "comm/injection.hpp"
#include "comm/phase.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// StopLevel says how firmly the job was asked to stop. The heartbeat merges the ranks' levels by maximum.
enum class StopLevel : int { none = 0, after_step = 1, now = 2 };

class Session {
 public:
  struct Settings {
    double watchdog_s = 600;                      // deadline of a phase; 0: none
    std::map<Phase, double> phase_limits_s = {};  // of phases whose deadline is another one
    Path folder = {};                             // where several machines tell each other of a hang; empty: nowhere
    std::optional<Injection> injection = {};
  };
  /// End says how a job ended, in the words of the rank that explains it.
  struct End {
    std::string explanation = {};  // empty after success
    int code = 0;
    int rank = 0;  // that it is about; the next three are its status
    std::string host = {};
    Phase phase = Phase::start_up;
    std::int64_t step = -1;
  };
  /// Local. `world` as MPI (or a test) gave it; `program` opens what it prints at an end.
  explicit Session(std::unique_ptr<Communicator> world, std::string program = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Communicator& world();
  /// Shares the ranks' statuses and starts the watchdog. At the deadline of a phase the first rank to reach it prints
  /// who holds up the job and where every rank is, in which action of its program, also one that cannot speak any more,
  /// and ends the job with code 7. Where the process of another rank of this machine ends without leaving the job in
  /// order, one rank says so and leaves the end to the launcher. Collective over the world.
  void configure(const Settings& settings);
  /// From now until the end of the session USR1, TERM, INT and HUP are requests to stop: the first after the step, the
  /// second now, the third ends the process. A HUP that nohup(1) has it ignore stays ignored. A repetition within 0.2 s
  /// is the same request, sent by both launcher and queue. Local.
  void accept_stop_signals();
  /// Says what the rank does from now on and restarts the deadline; brings an injected failure about if it is due here.
  /// Local. `step` is -1 outside steps. May throw (that is the injection's purpose).
  void enter(Phase phase, std::int64_t step = -1, const CurrentAction& action = {});
  Phase phase() const;        // Local
  std::int64_t step() const;  // Local
  double seconds() const;     // Local; since the session began
  /// "rank 1 (node17), forward of step 3"; without the rank in a job of one. Local.
  std::string where() const;
  /// Brings an injected failure about if it is due in `phase` of the present step. enter() does so by itself; this is
  /// for what runs beside the phases: operations on lanes. Local; from any thread. May throw.
  void inject(Phase phase);
  /// Throws an injected error if one is due in `phase` of `step`, for which work is done ahead of the ranks' agreement:
  /// what else can be injected happens as ranks enter that step. Local; from any thread.
  void inject_error(Phase phase, std::int64_t step);
  /// True once if an injected NaN is due: the caller poisons its numbers. Local.
  bool take_injected_nan();
  /// True once if a bit of the state is to be flipped. Local.
  bool take_injected_flip();
  /// The strongest request that this process has received by signal or request_stop. Local.
  StopLevel stop_level() const;
  void request_stop(StopLevel level);  // Local
  /// Called with the outcome when the job ends (status.json): where all ranks agree on it, on the one rank that
  /// explains it (with success, rank 0); where a rank has to end the job alone, on that rank and perhaps on another
  /// thread. Must not communicate. Local.
  void on_end(std::function<void(const End&)> callback);
  /// Calls it; app does, when a tool has returned. Local.
  void tell_end(const std::string& explanation, int code) noexcept;
  /// This rank has a failure that it will explain, alone or agreed with the others: watchdogs that it sets off
  /// elsewhere leave the word to it for 15 s. Local.
  void claim_report();
  /// Prints `explanation` and `hint`, tells on_end and ends the whole job with `code`, asking nobody: for a rank whose
  /// failure the others cannot learn of otherwise. A rank that comes after another's claim to explain gives that one
  /// 15 s to end the job. Local; from any thread.
  [[noreturn]] void abort_with(const std::string& explanation, int code, const std::string& hint = {}) noexcept;
  /// The same for a failure of this rank, with where() before its message.
  [[noreturn]] void abort_with(const Failure& failure) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For programs that write all or nothing: throws Error(verdict) once this process was asked to stop. Local.
void end_if_stopped(const Session& session);

}  // namespace lockstep
