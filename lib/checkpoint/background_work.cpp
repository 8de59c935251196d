#include "checkpoint/background_work.hpp"

#include "base/error.hpp"

#include <system_error>
#include <utility>

namespace lockstep {

void BackgroundWork::start(std::function<void()> work) {
  invariant(!under_way_, "one piece of work at a time");
  if (thread_.joinable()) thread_.join();
  failure_ = nullptr;
  under_way_ = true;
  const auto run = [this, work = std::move(work)] {
    try {
      work();
    } catch (...) {
      failure_ = std::current_exception();
    }
    under_way_ = false;
  };
  try {
    thread_ = std::jthread(run);
  } catch (const std::system_error&) {
    run();
  }
}

void BackgroundWork::finish() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace lockstep
