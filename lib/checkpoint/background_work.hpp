// Runs one piece of work at a time on a thread of its own. The work may use storage and processor, but it must not
// communicate: the threads that wait for the work exchange its results between ranks.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <thread>

namespace lockstep {

/// One thread calls all members, and it outlives the work. Local.
class BackgroundWork {
 public:
  /// Starts `work`; no other work may be running. If the system gives no thread, the caller does the work itself.
  void start(std::function<void()> work);
  bool under_way() const { return under_way_; }
  /// Waits until the work is done, then rethrows its exception once.
  void finish();

 private:
  std::atomic<bool> under_way_{false};
  std::exception_ptr failure_;
  std::jthread thread_;  // last member: joined before the others are destroyed
};

}  // namespace lockstep
