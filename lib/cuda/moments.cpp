#include "cuda/moments.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cuda/device_failure.hpp"

#include <utility>

namespace lockstep::cuda {

Moments::~Moments() {
  for (cudaEvent_t event : free_events_) release([&] { return cudaEventDestroy(event); });
}

cudaEvent_t Moments::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      cudaEvent_t event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  // A thread that waits sleeps: its core may be needed by those that load data.
  call("cannot make an event", [&] { return cudaEventCreateWithFlags(&event, cudaEventBlockingSync); });
  return event;
}

void Moments::give_event(cudaEvent_t event) noexcept {
  const std::lock_guard lock(mutex_);
  free_events_.push_back(event);
}

std::shared_ptr<MomentOfQueue> Moments::record(cudaStream_t stream, DeviceQueue queue) {
  const std::shared_ptr<MomentOfQueue> moment(new MomentOfQueue, [pool = shared_from_this()](MomentOfQueue* one) {
    if (one->event != nullptr) pool->give_event(one->event);
    delete one;
  });
  moment->event = take_event();
  moment->queue = queue;
  moment->recorded_s = monotonic_seconds();
  call("cannot record an event", [&] { return cudaEventRecord(moment->event, stream); });
  return moment;
}

bool Moments::is_over(MomentOfQueue& moment) const {
  if (moment.is_over) return true;
  ready_for_call();
  const cudaError_t answer = cudaEventQuery(moment.event);
  if (answer == cudaErrorNotReady) return false;
  check(answer, "seen when asking whether its work has ended");
  moment.is_over = true;
  return true;
}

void Moments::wait(const std::shared_ptr<MomentOfQueue>& moment) {
  const bool was_over = is_over(*moment);
  if (!was_over) call("seen when waiting for its work", [&] { return cudaEventSynchronize(moment->event); });
  moment->is_over = true;
  const double now = monotonic_seconds();
  constexpr double old_s = 10;
  const std::lock_guard lock(mutex_);
  if (newer_.moment != nullptr && (was_over || now - newer_.seconds < old_s)) return;
  older_ = std::exchange(newer_, {moment, now});
}

double Moments::seconds_of(const MomentOfQueue& moment) const {
  Anchor anchor;
  {
    const std::lock_guard lock(mutex_);
    // Times are counted from an earlier event.
    anchor = newer_.seconds <= moment.recorded_s || older_.moment == nullptr ? newer_ : older_;
  }
  if (anchor.moment.get() == &moment) return anchor.seconds;
  invariant(anchor.moment != nullptr, "a device was waited for before its moments tell their times");
  float milliseconds = 0;
  call("cannot read the time between two events",
       [&] { return cudaEventElapsedTime(&milliseconds, anchor.moment->event, moment.event); });
  constexpr double per_second = 1000;
  return anchor.seconds + static_cast<double>(milliseconds) / per_second;
}

void Moments::close() { const Anchor newer = std::exchange(newer_, {}), older = std::exchange(older_, {}); }

}  // namespace lockstep::cuda
