// Work beside the caller: one piece at a time, on a thread of its own. It may use the storage and the processor and
// must not communicate: what ranks say to each other about it is said by the threads that wait for it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace lockstep {

/// All members are for one thread, which outlives the work. Local.
class BackgroundWork {
 public:
  /// None may be under way. Where the system gives no thread, the caller does the work itself.
  void start(std::function<void()> work);
  bool under_way() const { return under_way_; }
  /// Waits until it is done, and throws what it threw, once.
  void finish();

 private:
  std::atomic<bool> under_way_{false};
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it is joined before the rest goes
};

}  // namespace lockstep
