#include "comm/lane.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/waiting.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace lockstep {

struct CommunicationLane::State {
  std::unique_ptr<Communicator> ranks;
  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<std::function<void(Communicator&)>> queue;  // the first is being done
  std::uint64_t issued = 0;                              // tickets given out
  std::uint64_t done = 0;                                // tickets finished, in order
  std::exception_ptr failure;                            // of ticket done + 1
  bool over = false;
  double busy_s = 0;
  std::thread thread;

  /// The thread's life: until the lane is over and its queue empty, or something failed.
  void serve() {
    std::unique_lock lock(mutex);
    while (!failure) {
      changed.wait(lock, [this] { return over || !queue.empty(); });
      if (queue.empty()) return;
      const std::function<void(Communicator&)> work = queue.front();
      lock.unlock();
      const double start = monotonic_seconds();
      std::exception_ptr thrown;
      try {
        work(*ranks);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      busy_s += monotonic_seconds() - start;
      queue.pop_front();
      if (thrown) {
        failure = thrown;
        queue.clear();
      } else {
        ++done;
      }
      changed.notify_all();
    }
  }
};

CommunicationLane::CommunicationLane(Communicator& ranks, const std::string& name) : state_(std::make_shared<State>()) {
  state_->ranks = ranks.split(0, name);
  if (ranks.size() > 1) state_->thread = std::thread([state = state_] { state->serve(); });
}

CommunicationLane::~CommunicationLane() {
  if (!state_->thread.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->over = true;
  if (std::uncaught_exceptions() > 0) {
    while (state_->queue.size() > 1) state_->queue.pop_back();  // not begun
    state_->changed.notify_all();
    const bool idle = state_->changed.wait_for(lock, std::chrono::seconds(2), [this] { return state_->queue.empty(); });
    if (!idle) {
      state_->thread.detach();
      return;
    }
  }
  state_->changed.notify_all();
  lock.unlock();
  state_->thread.join();
}

Ticket CommunicationLane::all_reduce(std::span<std::byte> bytes, DType dtype, Reduce reduce) {
  return issue([bytes, dtype, reduce](Communicator& ranks) { ranks.all_reduce(bytes, dtype, reduce); });
}

Ticket CommunicationLane::issue(std::function<void(Communicator&)> work) {
  if (!state_->thread.joinable()) {
    work(*state_->ranks);
    return {};
  }
  const std::lock_guard lock(state_->mutex);
  const Ticket ticket{++state_->issued};
  if (!state_->failure) state_->queue.push_back(std::move(work));
  state_->changed.notify_all();
  return ticket;
}

void CommunicationLane::wait(Ticket ticket) {
  std::unique_lock lock(state_->mutex);
  invariant(ticket.number <= state_->issued, "a ticket is waited for on the lane that gave it");
  if (state_->done < ticket.number && !state_->failure) {
    const Waiting waiting;
    state_->changed.wait(lock, [&] { return state_->done >= ticket.number || state_->failure; });
  }
  if (state_->done < ticket.number) std::rethrow_exception(state_->failure);
}

void CommunicationLane::drain() {
  std::unique_lock lock(state_->mutex);
  const Ticket last{state_->issued};
  lock.unlock();
  wait(last);
}

double CommunicationLane::busy_s() const {
  const std::lock_guard lock(state_->mutex);
  return state_->busy_s;
}

}  // namespace lockstep
