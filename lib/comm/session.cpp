#include "comm/session.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/run_clock.hpp"
#include "comm/rank_board.hpp"
#include "comm/rank_table.hpp"
#include "comm/start_watch.hpp"
#include "comm/stop_signals.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

constexpr double report_hold_s = 15;  // for the rank that claimed the report to give it and end the job

void print_now(const std::string& line) {
  [[maybe_unused]] const auto written =
      ::write(2, line.data(), line.size());  // a lost line is no reason to fail differently
}

void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// LOCKSTEP_TEST_CLOCK=S: the clock of the run stands at 0, and at S·N in the forward pass of the N-th step, so that
/// tests of cadences and limits hang on no time.
double clock_step() {
  const char* const seconds = std::getenv("LOCKSTEP_TEST_CLOCK");
  if (seconds == nullptr) return 0;
  drive_run_clock(0);
  return std::atof(seconds);
}

}  // namespace

struct Session::State {
  State(std::unique_ptr<Communicator> ranks, std::string name)
      : world(std::move(ranks)), program(std::move(name)), board(*world) {}

  const double clock_step_s = clock_step();  // by which a test drives the clock of the run; 0: none does
  double begin_s = run_seconds();
  std::unique_ptr<Communicator> world;
  std::string program;
  RankBoard board;
  std::string host = host_name();

  std::mutex mutex;  // guards on_end
  std::function<void(const End&)> on_end;
  double watchdog_s = 0;  // constant while the watchdog runs, as the next
  std::map<Phase, double> phase_limits_s;
  FileDescriptor wake;  // readable when the session is over
  std::thread watchdog;

  std::mutex injection_mutex;          // guards injection
  std::optional<Injection> injection;  // taken when it has happened
  std::atomic<bool> nan_due{false};
  std::atomic<bool> flip_due{false};
  std::atomic<bool> explains{false};  // the claim to the report is this rank's
  std::atomic<int> requested{0};
  std::atomic<bool> ending{false};
  std::optional<StopSignals> signals;

  std::string who() const { return world->size() == 1 ? "" : fmt::format("rank {} ({}), ", world->world_rank(), host); }
  std::string phase_text() const {
    const RankStatus mine = board.mine();
    return text_of(mine.phase, mine.step);
  }
  double limit_of(Phase phase) const {
    const auto own = phase_limits_s.find(phase);
    return own == phase_limits_s.end() ? watchdog_s : own->second;
  }
  End end_at(const RankStatus& about, const std::string& explanation, int code) const {
    return {.explanation = explanation,
            .code = code,
            .rank = about.rank,
            .host = about.host,
            .phase = about.phase,
            .step = about.step};
  }

  /// The injection if it is due, which uses it up for this step.
  std::optional<Injection> take_injection(Phase phase, std::int64_t step, bool errors_alone = false);
  void watch();
  /// Waits for the session's end, or so long; looks after the other ranks' processes meanwhile. True when the session
  /// is over.
  bool wait(double seconds, std::vector<RankBoard::Neighbour>& neighbours);
  void tell_of_death(const RankStatus& dead);
  [[noreturn]] void tell_of_hang(double limit_s);

  /// Prints `text`, tells on_end and ends the job; of several threads the first one.
  [[noreturn]] void end(const End& how, const std::string& text) noexcept {
    if (ending.exchange(true)) {
      for (;;) sleep_s(1);
    }
    print_now(text);
    const int code = how.code;
    std::thread([this, code] {  // a file system that hangs must not keep the job from ending
      sleep_s(report_hold_s);
      world->abort(code);
    })
        .detach();
    tell(how);
    world->abort(code);
    ::_exit(code);  // gcc 12 does not see that a virtual function never returns
  }

  void tell(const End& how) noexcept {
    try {
      std::unique_lock lock(mutex);
      const auto callback = on_end;
      lock.unlock();
      if (callback) callback(how);
    } catch (...) {  // status.json could not be written: the exit code still says it
    }
  }
};

bool Session::State::wait(double seconds, std::vector<RankBoard::Neighbour>& neighbours) {
  std::vector<pollfd> watched{{wake.get(), POLLIN, 0}};
  for (const RankBoard::Neighbour& neighbour : neighbours) watched.push_back({neighbour.descriptor, POLLIN, 0});
  if (::poll(watched.data(), watched.size(), static_cast<int>(seconds * 1e3) + 1) <= 0) return false;
  if (watched[0].revents != 0) return true;
  for (std::size_t i = watched.size() - 1; i > 0; --i) {
    if (watched[i].revents == 0) continue;
    const int rank = neighbours[i - 1].rank;
    neighbours.erase(neighbours.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    if (!board.has_left(rank)) tell_of_death(board.neighbour(rank));
  }
  return false;
}

/// The launcher knows how the process ended, returns that code and ends the other ranks, within a second or two.
void Session::State::tell_of_death(const RankStatus& dead) {
  if (!board.claim_report() || ending.exchange(true)) return;
  const std::string explanation = fmt::format("rank {} ({}) ended without an error message in {}", dead.rank, dead.host,
                                              text_of(dead.phase, dead.step));
  print_now(explanation + "\n");
  constexpr int code = static_cast<int>(ExitCode::communication);
  tell(end_at(dead, explanation, code));
  sleep_s(report_hold_s);
  world->abort(code);
}

void Session::State::tell_of_hang(double limit_s) {
  board.report_machine();
  const std::vector<RankStatus> all = board.all(std::clamp(limit_s / 2, 1.0, 10.0));
  const std::vector<RankStatus> guilty = blocking_ranks(all);
  const std::string who = guilty.empty() ? "every rank waits for another" : headline(guilty);
  const std::string explanation =
      fmt::format("watchdog: {}: longer than the limit of {} s, the job ends", who, limit_s);
  end(end_at(guilty.empty() ? board.mine() : guilty.front(), explanation, static_cast<int>(ExitCode::communication)),
      fmt::format("{}\n{}", explanation, all.size() > 1 ? table_of(all) : ""));
}

std::optional<Injection> Session::State::take_injection(Phase phase, std::int64_t step, bool errors_alone) {
  const std::lock_guard lock(injection_mutex);
  if (!injection || injection->rank != world->world_rank() || injection->phase != phase) return std::nullopt;
  if (injection->step >= 0 && injection->step != step) return std::nullopt;
  if (errors_alone && injection->kind != Injection::Kind::raise) return std::nullopt;
  const Injection due = *injection;
  if (--injection->steps > 0)
    injection->step = step + 1;
  else
    injection.reset();
  return due;
}

void Session::State::watch() {
  std::vector<RankBoard::Neighbour> neighbours = board.neighbours();
  double look_s = 1;  // between looks: a tenth of the shortest limit, at most this
  if (watchdog_s > 0) look_s = std::min(look_s, watchdog_s / 10);
  for (const auto& [phase, own_s] : phase_limits_s) {
    if (own_s > 0) look_s = std::min(look_s, own_s / 10);
  }
  double held_since_s = 0;  // when the deadline passed and another rank had claimed the report
  for (;;) {
    if (wait(look_s, neighbours)) return;
    const RankStatus now = board.mine();
    const double now_limit_s = limit_of(now.phase);
    if (now_limit_s <= 0 || now.seconds < now_limit_s / 2) continue;
    if (board.claimed_elsewhere()) board.report_machine();
    if (now.seconds < now_limit_s) {
      held_since_s = 0;
      continue;
    }
    if (board.claim_report()) tell_of_hang(now_limit_s);
    if (held_since_s == 0) held_since_s = monotonic_seconds();
    if (monotonic_seconds() - held_since_s > report_hold_s) tell_of_hang(now_limit_s);
  }
}

Session::Session(std::unique_ptr<Communicator> world, std::string program)
    : state_(std::make_unique<State>(std::move(world), std::move(program))) {}

Session::~Session() {
  state_->board.leave();
  if (state_->watchdog.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(state_->wake.get(), &one, sizeof one);
    state_->watchdog.join();
  }
  if (state_->clock_step_s > 0) release_run_clock();
}

Communicator& Session::world() { return *state_->world; }

void Session::configure(const Settings& settings) {
  {
    const std::lock_guard lock(state_->injection_mutex);
    state_->injection = settings.injection;
  }
  if (state_->watchdog.joinable()) return;
  state_->watchdog_s = settings.watchdog_s;
  state_->phase_limits_s = settings.phase_limits_s;
  {
    const StartWatch watch(
        {.limit_s = state_->limit_of(Phase::start_up), .place = "the first exchange between ranks", .on_end = {}});
    state_->board.share(world(), settings.folder);
  }
  state_->wake = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  state_->watchdog = std::thread([this] { state_->watch(); });
}

void Session::accept_stop_signals() {
  if (!state_->signals) state_->signals.emplace();
}

void Session::enter(Phase phase, std::int64_t step, const CurrentAction& action) {
  if (state_->clock_step_s > 0 && phase == Phase::forward)
    drive_run_clock(state_->clock_step_s * static_cast<double>(step + 1));
  state_->board.enter(phase, step, action);
  inject(phase);
}

void Session::wait_for(std::string_view what) { state_->board.name_wait(what); }

void Session::inject_error(Phase phase, std::int64_t step) {
  const std::optional<Injection> injection = state_->take_injection(phase, step, true);
  if (injection) fail(static_cast<ExitCode>(injection->code), "injected failure in {}", text_of(phase, step));
}

void Session::inject(Phase phase) {
  const std::int64_t now = step();
  const std::optional<Injection> injection = state_->take_injection(phase, now);
  if (!injection) return;
  switch (injection->kind) {
    case Injection::Kind::raise:
      fail(static_cast<ExitCode>(injection->code), "injected failure in {}", text_of(phase, now));
    case Injection::Kind::exit: ::_exit(injection->code);
    case Injection::Kind::stall: std::this_thread::sleep_for(std::chrono::hours(24 * 365)); break;
    case Injection::Kind::nan: state_->nan_due = true; break;
    case Injection::Kind::flip: state_->flip_due = true; break;
    case Injection::Kind::kill: std::raise(SIGKILL); break;
    case Injection::Kind::pause: std::raise(SIGSTOP); break;
    case Injection::Kind::stop: request_stop(StopLevel::after_step); break;
  }
}

Phase Session::phase() const { return state_->board.mine().phase; }
std::int64_t Session::step() const { return state_->board.mine().step; }
double Session::seconds() const { return run_seconds() - state_->begin_s; }
std::string Session::where() const { return state_->who() + state_->phase_text(); }

bool Session::take_injected_nan() { return state_->nan_due.exchange(false); }
bool Session::take_injected_flip() { return state_->flip_due.exchange(false); }

StopLevel Session::stop_level() const {
  const int signalled = state_->signals ? state_->signals->count() : 0;
  return static_cast<StopLevel>(
      std::min(std::max(signalled, state_->requested.load()), static_cast<int>(StopLevel::now)));
}

std::string Session::stop_reason() const {
  const std::string_view signal = state_->signals ? state_->signals->first() : "";
  if (!signal.empty()) return std::string(signal);
  return stop_level() == StopLevel::none ? "" : "a request";
}

void Session::request_stop(StopLevel level) {
  int before = state_->requested;
  while (before < static_cast<int>(level) &&
         !state_->requested.compare_exchange_weak(before, static_cast<int>(level))) {
  }
}

void Session::on_end(std::function<void(const End&)> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->on_end = std::move(callback);
}

void Session::report_end(const std::string& explanation, int code) noexcept {
  state_->tell(state_->end_at(state_->board.mine(), explanation, code));
}

void Session::claim_report() {
  if (state_->board.claim_report()) state_->explains = true;
}

void Session::abort_with(const std::string& explanation, int code, const std::string& hint) noexcept {
  claim_report();
  if (!state_->explains) sleep_s(report_hold_s);
  const std::string opening = state_->program.empty() ? "" : state_->program + ": ";
  const std::string closing = hint.empty() ? "" : "\n  hint: " + hint;
  state_->end(state_->end_at(state_->board.mine(), explanation, code), opening + explanation + closing + "\n");
}

void Session::abort_with(const Failure& failure) noexcept {
  abort_with(fmt::format("{}: {}", where(), failure.message), static_cast<int>(failure.code), failure.hint);
}

void end_if_stopped(const Session& session) {
  if (session.stop_level() != StopLevel::none) fail(ExitCode::verdict, "stopped on request: nothing is written");
}

}  // namespace lockstep
