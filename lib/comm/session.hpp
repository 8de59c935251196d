// Session is a running program's connection to its job: the communicator, the current phase and its deadline, and stop
// requests from outside. app makes one per process and passes it down; nothing of it is global except the state of the
// signal handler. Failures that tests inject: comm/injection.hpp. One decision from all stop requests: comm/stop.hpp
// and comm/heartbeat.hpp.
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
#include <string_view>

namespace lockstep {

/// StopLevel says how firmly the job was asked to stop. The heartbeat merges the ranks' levels by maximum.
enum class StopLevel : int { none = 0, after_step = 1, now = 2 };

class Session {
 public:
  struct Settings {
    double watchdog_s = 600;                      // deadline of a phase; 0: none
    std::map<Phase, double> phase_limits_s = {};  // deadlines of phases that differ from watchdog_s
    Path folder = {};                             // where several machines report a hang to each other; empty: nowhere
    std::optional<Injection> injection = {};
  };
  /// End describes how a job ended, in the words of the rank that explains it.
  struct End {
    std::string explanation = {};  // empty after success
    int code = 0;
    // The rank that the explanation is about; host, phase and step are its status.
    int rank = 0;
    std::string host = {};
    Phase phase = Phase::start_up;
    std::int64_t step = -1;
  };
  /// Local. `world` comes from MPI (or a test). `program` is the prefix of messages printed when the job ends.
  explicit Session(std::unique_ptr<Communicator> world, std::string program = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Communicator& world();
  /// Shares the ranks' statuses and starts the watchdog. The first rank that reaches the deadline of its phase prints
  /// which ranks hold up the job and the status of every rank, with its current action, even of a rank that no longer
  /// responds; then it ends the job with code 7. If the process of another rank of this machine ends without leaving
  /// the job in order, one rank reports it and leaves ending the job to the launcher; after 15 s it ends the job
  /// itself. Collective over the world.
  void configure(const Settings& settings);
  /// From now until the end of the session, USR1, TERM, INT and HUP are requests to stop: the first one after the step,
  /// the second one now, and the third one ends the process. A HUP that nohup(1) made ignored stays ignored. A
  /// repetition within 0.2 s is the same request, sent by both launcher and queue. Local.
  void accept_stop_signals();
  /// Sets the rank's current phase, restarts the deadline, and causes an injected failure if one is due here. Local.
  /// `step` is -1 outside steps. May throw (that is the purpose of an injection).
  void enter(Phase phase, std::int64_t step = -1, const CurrentAction& action = {});
  /// Sets the name of the operation in which this rank's device waits, for reports of the watchdog; empty: it does not
  /// wait. Local; from one thread.
  void wait_for(std::string_view what);
  Phase phase() const;        // Local
  std::int64_t step() const;  // Local
  double seconds() const;     // Local; since the session began
  /// "rank 1 (node17), forward of step 3"; without the rank in a job of one rank. Local.
  std::string where() const;
  /// Causes an injected failure if one is due in `phase` of the current step. enter() does so by itself; this is for
  /// work beside the phases, that is, operations on lanes. Local; from any thread. May throw.
  void inject(Phase phase);
  /// Throws an injected error if one is due in `phase` of `step`, for work that runs ahead of the agreement of ranks.
  /// Other kinds of injections happen when ranks enter that step. Local; from any thread.
  void inject_error(Phase phase, std::int64_t step);
  /// Returns true once if an injected NaN is due; the caller writes it into its numbers. Local.
  bool take_injected_nan();
  /// Returns true once if a bit of the state is to be flipped. Local.
  bool take_injected_flip();
  /// The strongest request that this process has received by signal or by request_stop. Local.
  StopLevel stop_level() const;
  /// Names the source of that request: "SIGUSR1", or "a request"; empty: none. Local.
  std::string stop_reason() const;
  void request_stop(StopLevel level);  // Local
  /// Sets a callback for the end of the job (status.json). If all ranks agree on the outcome, the one rank that
  /// explains it calls it (with success, rank 0). If a rank has to end the job alone, that rank calls it, perhaps on
  /// another thread. The callback must not communicate. Local.
  void on_end(std::function<void(const End&)> callback);
  /// Calls that callback; app does so when a tool has returned. Local.
  void report_end(const std::string& explanation, int code) noexcept;
  /// Announces that this rank will explain a failure, alone or agreed with the others. Watchdogs that expire elsewhere
  /// because of it then wait 15 s for that explanation. Local.
  void claim_report();
  /// Prints `explanation` and `hint`, calls the on_end callback and ends the whole job with `code`, without asking
  /// other ranks. For failures that the others cannot receive in another way. If another rank has claimed the report
  /// before, this rank first gives it 15 s to end the job. Local; from any thread.
  [[noreturn]] void abort_with(const std::string& explanation, int code, const std::string& hint = {}) noexcept;
  /// Ends the job because of a failure of this rank, with where() before its message.
  [[noreturn]] void abort_with(const Failure& failure) noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// For programs that write everything or nothing: throws Error(verdict) once this process was asked to stop. Local.
void end_if_stopped(const Session& session);

}  // namespace lockstep
