// An operation is communication as a state machine: a coroutine that is suspended wherever it waits for calls of a
// communicator, so that one thread goes through many. The operations that there are: comm/operations.hpp.
#pragma once

#include "comm/non_blocking.hpp"

#include <coroutine>
#include <exception>
#include <span>
#include <utility>

namespace lockstep {

class Operation {
 public:
  /// What a coroutine awaits: that calls end. With no calls it only lets others have a turn.
  struct Ended {
    NonBlocking* ranks = nullptr;
    std::span<NonBlocking::Call> calls;
  };

  struct promise_type {
    struct Suspended {
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<>) const noexcept {}
      void await_resume() const noexcept {}
    };
    Operation get_return_object() { return Operation(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { failure = std::current_exception(); }
    Suspended await_transform(const Ended& what) noexcept {
      awaited = what;
      return {};
    }

    Ended awaited;
    std::exception_ptr failure;
  };

  /// One that has nothing to do.
  Operation() = default;
  Operation(Operation&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Operation& operator=(Operation&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Operation() {
    if (handle_) handle_.destroy();
  }

  bool done() const { return !handle_ || handle_.done(); }
  /// Whether it can go on: it is not done, and what it awaits has ended. Local.
  bool ready();
  /// What it awaits: for an operation that goes through this one.
  Ended awaits() const { return handle_.promise().awaited; }
  /// Goes on up to the next wait: a bounded piece of work. Only when it is ready. Throws what the operation throws,
  /// which is then over. Local.
  void advance();

 private:
  explicit Operation(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

/// How a thread that finds nothing to do for the moment waits: awake at first, then in sleeps that get longer with the
/// wait. Beside it another thread may compute, which is not to be kept from it.
class Backoff {
 public:
  enum class Beside { computes, waits };  // what the thread does that issues operations

  void moved() { polls_ = 0; }
  /// Seconds to sleep now; 0: none.
  double next_sleep_s(Beside beside);

 private:
  int polls_ = 0;  // without anything done
  double since_s_ = 0;
};

/// Goes through an operation to its end. Blocks; Collective if the operation is.
void run_to_end(Operation operation);

}  // namespace lockstep
