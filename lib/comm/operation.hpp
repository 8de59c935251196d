// An Operation is communication as a state machine: a coroutine that is suspended wherever it waits for calls of a
// communicator, so that one thread can run many operations. The available operations: comm/operations.hpp.
#pragma once

#include "comm/non_blocking.hpp"
#include "device/device.hpp"

#include <coroutine>
#include <exception>
#include <span>
#include <utility>

namespace lockstep {

class Operation {
 public:
  /// A coroutine awaits this: the end of `calls`, or a moment of the device. Without either it only lets other
  /// operations have a turn.
  struct Ended {
    NonBlocking* ranks = nullptr;
    std::span<NonBlocking::Call> calls;
    const DeviceMoment* moment = nullptr;  // of the coroutine
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

  /// An operation that has nothing to do.
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
  /// Whether it can continue: it is not done, and the calls that it awaits have ended. Local.
  bool ready();
  /// The calls that it awaits, for an operation that is built from this one.
  Ended awaits() const { return handle_.promise().awaited; }
  /// Continues up to the next wait, which is a bounded amount of work. Only if it is ready. Throws the error of the
  /// operation, which is over then. Local.
  void advance();

 private:
  explicit Operation(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

/// Decides how an idle thread waits: at first without sleeping, then in sleeps that grow with the wait. Another thread
/// may compute at the same time and must not be slowed down.
class Backoff {
 public:
  enum class Caller { computes, waits };  // activity of the thread that issues operations

  void moved() { polls_ = 0; }
  /// Seconds to sleep now; 0: none.
  double next_sleep_s(Caller beside);

 private:
  int polls_ = 0;  // since the last progress
  double since_s_ = 0;
};

/// Runs an operation to its end. Blocks; Collective if the operation is.
void run_to_end(Operation operation);

}  // namespace lockstep
