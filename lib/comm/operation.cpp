#include "comm/operation.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace lockstep {

void NonBlocking::halfway() const {
  if (hook_) hook_();
}

bool Operation::ready() {
  if (done()) return false;
  const Ended& awaited = handle_.promise().awaited;
  return awaited.calls.empty() || awaited.ranks->ended(awaited.calls);
}

void Operation::advance() {
  handle_.promise().awaited = {};
  handle_.resume();
  if (const std::exception_ptr failure = std::exchange(handle_.promise().failure, nullptr))
    std::rethrow_exception(failure);
}

double Backoff::next_sleep_s() {
  constexpr int polls_awake = 50;
  constexpr double shortest_s = 50e-6, longest_s = 500e-6;
  if (++polls_ < polls_awake) return 0;
  if (polls_ == polls_awake) since_s_ = monotonic_seconds();
  return std::clamp((monotonic_seconds() - since_s_) / 50, shortest_s, longest_s);
}

void run_to_end(Operation operation) {
  Backoff backoff;
  while (!operation.done()) {
    if (operation.ready()) {
      operation.advance();
      backoff.moved();
    } else if (const double sleep_s = backoff.next_sleep_s(); sleep_s > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(sleep_s));
    }
  }
}

}  // namespace lockstep
