// Moments of the device's queues, as events of CUDA. Events of moments that nobody holds any more are used again.
#pragma once

#include "device/device.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::cuda {

struct MomentOfQueue {
  cudaEvent_t event = nullptr;
  DeviceQueue queue = DeviceQueue::compute;
  double recorded_s = 0;  // by the clock of the host, when it was queued
  std::atomic<bool> is_over = false;
};

/// Any thread.
class Moments : public std::enable_shared_from_this<Moments> {
 public:
  Moments() = default;
  ~Moments();
  Moments(const Moments&) = delete;
  Moments& operator=(const Moments&) = delete;

  /// The moment after all work that is in `stream` now. It keeps this object. Throws Error(resources).
  std::shared_ptr<MomentOfQueue> record(cudaStream_t stream, DeviceQueue queue);
  bool is_over(MomentOfQueue& moment) const;
  /// Waits for the moment. Afterwards seconds_of() goes by it if the last one is old.
  void wait(const std::shared_ptr<MomentOfQueue>& moment);
  /// When a moment that is over was reached, in monotonic seconds of the host.
  double seconds_of(const MomentOfQueue& moment) const;
  /// Lets go of the moments by which seconds_of() goes, which keep this object.
  void close();

 private:
  /// A moment that the host waited for, and its time. Times between two events are exact to a part in 10^7 of their
  /// distance, and the clocks of host and device drift apart, so that old ones are replaced.
  struct Anchor {
    std::shared_ptr<MomentOfQueue> moment;
    double seconds = 0;
  };
  cudaEvent_t take_event();
  void give_event(cudaEvent_t event) noexcept;

  mutable std::mutex mutex_;
  std::vector<cudaEvent_t> free_events_;
  Anchor newer_, older_;
};

}  // namespace lockstep::cuda
