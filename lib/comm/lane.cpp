#include "comm/lane.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "comm/failure.hpp"
#include "comm/waiting.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep {

namespace {
constexpr std::chrono::milliseconds look_at_lane(50);  // by who waits for it
}

struct CommunicationLane::State {
  std::unique_ptr<Communicator> ranks;
  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::deque<std::function<void(Communicator&)>> queue;  // the first is being done
  std::uint64_t issued = 0;                              // tickets given out
  std::uint64_t done = 0;                                // tickets finished, in order
  bool over = false;
  double busy_s = 0;
  std::atomic<std::int32_t> waiting{0};  // above 0: the thread waits for other ranks
  std::thread thread;

  /// The thread's life: until the lane is over and its queue empty. A failure ends the job.
  void serve(Session& session) {
    Waiting::counts_in(&waiting);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return over || !queue.empty(); });
      if (queue.empty()) return;
      const std::function<void(Communicator&)> work = queue.front();
      lock.unlock();
      const double start = monotonic_seconds();
      try {
        work(*ranks);
      } catch (...) {
        Failure failure = failure_of(std::current_exception(), *ranks);
        failure.message = "on the communication lane: " + failure.message;
        session.abort_with(failure);
      }
      lock.lock();
      busy_s += monotonic_seconds() - start;
      queue.pop_front();
      ++done;
      changed.notify_all();
    }
  }
};

CommunicationLane::CommunicationLane(Session& session, const std::string& name) : state_(std::make_shared<State>()) {
  state_->ranks = session.world().split(0, name);
  state_->ranks->amid_all_reduce([&session] { session.inject(Phase::lane); });
  if (session.world().size() > 1) state_->thread = std::thread([state = state_, &session] { state->serve(session); });
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
  state_->queue.push_back(std::move(work));
  state_->changed.notify_all();
  return ticket;
}

void CommunicationLane::wait(Ticket ticket) {
  std::unique_lock lock(state_->mutex);
  invariant(ticket.number <= state_->issued, "a ticket is waited for on the lane that gave it");
  const auto done = [&] { return state_->done >= ticket.number; };
  // The caller waits for other ranks while the lane does. A lane that hangs by itself is this rank's own fault.
  std::optional<Waiting> waiting;
  while (!state_->changed.wait_for(lock, look_at_lane, done)) {
    if (state_->waiting == 0) {
      waiting.reset();
    } else if (!waiting) {
      waiting.emplace();
    }
  }
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
