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
  if (awaited.moment != nullptr) return this_device().is_over(*awaited.moment);
  return awaited.calls.empty() || awaited.ranks->ended(awaited.calls);
}

void Operation::advance() {
  handle_.promise().awaited = {};
  handle_.resume();
  if (const std::exception_ptr failure = std::exchange(handle_.promise().failure, nullptr))
    std::rethrow_exception(failure);
}

double Backoff::next_sleep_s(Caller beside) {
  constexpr int polls_awake = 50;
  constexpr double part_of_wait = 2.5e-3, longest_s = 500e-6;  // sleeps grow after some ms
  if (polls_++ == 0) since_s_ = monotonic_seconds();
  if (polls_ < polls_awake) return 0;
  const double shortest_s = beside == Caller::waits ? 10e-6 : 50e-6;
  return std::clamp((monotonic_seconds() - since_s_) * part_of_wait, shortest_s, longest_s);
}

void run_to_end(Operation operation) {
  Backoff backoff;
  while (!operation.done()) {
    if (operation.ready()) {
      operation.advance();
      backoff.moved();
    } else if (const double sleep_s = backoff.next_sleep_s(Backoff::Caller::waits); sleep_s > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(sleep_s));
    }
  }
}

}  // namespace lockstep
