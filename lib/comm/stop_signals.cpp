#include "comm/stop_signals.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

namespace lockstep {

namespace {

constexpr std::array<int, 4> signals = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};
constexpr std::int64_t same_request_ns = 200'000'000;

std::atomic<int> requests{0};
std::atomic<int> first_signal{0};
std::atomic<std::int64_t> last_ns{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

extern "C" void count_stop_request(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  if (requests > 0 && ns - last_ns < same_request_ns) return;
  last_ns = ns;
  if (requests == 0) first_signal = signal;
  if (++requests > 2) ::_exit(128 + signal);
}

}  // namespace

StopSignals::StopSignals() {
  requests = 0;
  first_signal = 0;
  struct sigaction action{};
  action.sa_handler = count_stop_request;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &action, &before_[i]);
  // nohup(1) has a process ignore the end of its terminal: such a run goes on.
  if (before_.back().sa_handler == SIG_IGN) sigaction(SIGHUP, &before_.back(), nullptr);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before_[i], nullptr);
}

int StopSignals::count() const { return requests; }
std::string_view StopSignals::first() const {
  constexpr std::array<std::string_view, signals.size()> names{"SIGUSR1", "SIGTERM", "SIGINT", "SIGHUP"};
  const auto* const signal = std::ranges::find(signals, first_signal.load());
  return signal == signals.end() ? "" : names[static_cast<std::size_t>(signal - signals.begin())];
}

}  // namespace lockstep
