// A fiber is a function with a stack of its own, which may be left and resumed in the middle. One thread has them all.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace on_host {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(Fiber&&) noexcept;
  Fiber& operator=(Fiber&&) noexcept;

  /// Begins `body` at the next resume. It ends with a last leave_fiber from its first function; only then may the fiber
  /// be started again.
  void start(void (*body)());
  /// Continues until the fiber leaves.
  void resume();

 private:
  friend void leave_fiber();
  struct State;
  std::unique_ptr<State> state_;
};

/// Continues after the resume of the fiber that calls it.
void leave_fiber();

}  // namespace on_host
