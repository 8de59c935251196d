#include "comm/session.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/stop_signals.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

/// What a rank does and since when. Small enough to be copied under a lock every time a phase begins.
struct Place {
  Phase phase = Phase::start_up;
  std::int64_t step = -1;
  double since_s = 0;
};

std::string place_text(const Place& place) {
  if (place.step < 0) return std::string(name_of(place.phase));
  return fmt::format("{} of step {}", name_of(place.phase), place.step);
}

void print_now(const std::string& line) {
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());   // a lost last word is no reason to fail differently
}

}  // namespace

struct Session::State {
  std::unique_ptr<Communicator> world;
  std::string host = host_name();
  double begin_s = monotonic_seconds();

  mutable std::mutex mutex;                  // guards what follows up to the blank line
  Place place;
  double watchdog_s = 0;
  bool over = false;
  std::function<void(const std::string&, int)> on_end;
  std::condition_variable changed;

  std::optional<Injection> injection;        // taken when it has happened
  bool nan_due = false;
  std::atomic<int> requested{0};
  std::atomic<bool> ending{false};
  std::optional<StopSignals> signals;
  std::thread watchdog;

  std::string who() const { return world->size() == 1 ? "" : fmt::format("rank {} ({}), ", world->world_rank(), host); }
  Place current() const {
    const std::lock_guard lock(mutex);
    return place;
  }

  /// Says it to on_end and ends the job; of several threads the first one.
  [[noreturn]] void end(const std::string& explanation, int code) noexcept {
    if (ending.exchange(true)) {
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    tell(explanation, code);
    world->abort(code);
    ::_exit(code);   // gcc 12 does not see that a virtual function never returns
  }

  void tell(const std::string& explanation, int code) noexcept {
    try {
      std::unique_lock lock(mutex);
      const auto callback = on_end;
      lock.unlock();
      if (callback) callback(explanation, code);
    } catch (...) {   // status.json could not be written: the exit code still says it
    }
  }
};

Session::Session(std::unique_ptr<Communicator> world) : state_(std::make_unique<State>()) {
  state_->world = std::move(world);
  state_->place.since_s = monotonic_seconds();
}

Session::~Session() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
  }
  state_->changed.notify_all();
  if (state_->watchdog.joinable()) state_->watchdog.join();
}

Communicator& Session::world() { return *state_->world; }

void Session::configure(const Settings& settings) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->watchdog_s = settings.watchdog_s;
    state_->place.since_s = monotonic_seconds();
  }
  state_->injection = settings.injection;
  if (settings.watchdog_s <= 0 || state_->watchdog.joinable()) return;
  state_->watchdog = std::thread([this] {
    std::unique_lock lock(state_->mutex);
    while (!state_->over) {
      const double limit = state_->watchdog_s;
      state_->changed.wait_for(lock, std::chrono::duration<double>(limit > 0 ? std::min(1.0, limit / 10) : 1.0));
      const double elapsed = monotonic_seconds() - state_->place.since_s;
      if (state_->over || limit <= 0 || elapsed < limit) continue;
      const std::string explanation = fmt::format("watchdog: {}{} takes longer than {} s ({:.1f} s so far), the job ends", state_->who(),
                                                  place_text(state_->place), limit, elapsed);
      lock.unlock();
      print_now(explanation + "\n");
      // The others reach their deadlines about now: what each of them says tells who waited for whom.
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(3.0, limit / 2)));
      state_->end(explanation, static_cast<int>(ExitCode::communication));
    }
  });
}

void Session::accept_stop_signals() {
  if (!state_->signals) state_->signals.emplace();
}

void Session::enter(Phase phase, std::int64_t step) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->place = {phase, step, monotonic_seconds()};
  }
  std::optional<Injection>& due = state_->injection;
  if (!due || due->rank != state_->world->world_rank() || due->phase != phase || (due->step >= 0 && due->step != step)) return;
  const Injection injection = *std::exchange(due, std::nullopt);
  switch (injection.kind) {
    case Injection::Kind::raise: fail(static_cast<ExitCode>(injection.code), "injected failure in {}", place_text(state_->current()));
    case Injection::Kind::exit: ::_exit(injection.code);
    case Injection::Kind::stall: std::this_thread::sleep_for(std::chrono::hours(24 * 365)); break;
    case Injection::Kind::nan: state_->nan_due = true; break;
    case Injection::Kind::kill: std::raise(SIGKILL); break;
    case Injection::Kind::stop: request_stop(StopLevel::after_step); break;
  }
}

Phase Session::phase() const { return state_->current().phase; }
std::int64_t Session::step() const { return state_->current().step; }
double Session::seconds() const { return monotonic_seconds() - state_->begin_s; }
std::string Session::where() const { return state_->who() + place_text(state_->current()); }

bool Session::take_injected_nan() { return std::exchange(state_->nan_due, false); }

StopLevel Session::stop_level() const {
  const int signalled = state_->signals ? state_->signals->count() : 0;
  return static_cast<StopLevel>(std::min(std::max(signalled, state_->requested.load()), static_cast<int>(StopLevel::now)));
}

void Session::request_stop(StopLevel level) {
  int before = state_->requested;
  while (before < static_cast<int>(level) && !state_->requested.compare_exchange_weak(before, static_cast<int>(level))) {
  }
}

void Session::on_end(std::function<void(const std::string&, int)> callback) {
  const std::lock_guard lock(state_->mutex);
  state_->on_end = std::move(callback);
}

void Session::tell_end(const std::string& explanation, int code) noexcept { state_->tell(explanation, code); }

void Session::last_word(const std::string& explanation, int code) noexcept {
  print_now(explanation + "\n");
  state_->end(explanation, code);
}

}  // namespace lockstep
