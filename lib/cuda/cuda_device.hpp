// A GPU as a device: four streams, moments as events, pinned memory and copies. Kernels: cuda/stream.hpp. Tensors:
// cuda/libtorch_cuda.hpp. After a failure nothing is queued any more, and whoever asks or waits for a moment gets the
// failure: a rank that has failed still takes part in the communication of its step.
#pragma once

#include "cuda/moments.hpp"
#include "device/device.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace lockstep::cuda {

class CudaDevice final : public Device {
 public:
  /// Opens the device `index` of CUDA. `count`: as in DevicePlugin::open. Throws Error(resources).
  CudaDevice(int index, DeviceProperties properties, void (*count)(std::int64_t bytes));
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const DeviceProperties& properties() const override { return properties_; }
  DeviceCounts counts() const override { return {.waits = waits_}; }
  std::int64_t free_memory() const override;
  std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) override;
  void copy(std::span<const RegionCopy> copies, DeviceQueue queue) override;
  DeviceMoment record(DeviceQueue queue) override;
  void follow(DeviceQueue queue, const DeviceMoment& moment) override;
  bool is_over(const DeviceMoment& moment) override;
  double seconds_of(const DeviceMoment& moment) override;
  void wait(const DeviceMoment& moment) override;
  void* handle_of(DeviceQueue queue) override { return stream_of(queue); }
  void note(std::string action) override;

 private:
  struct Note {
    std::string action;
    std::shared_ptr<MomentOfQueue> moment;  // when its work in the compute queue has ended
  };
  /// Blocks of pinned memory, which may outlive the device.
  struct Pinned {
    std::mutex mutex;
    std::map<const std::byte*, std::size_t> blocks;
  };
  bool is_pinned(const std::byte* address) const;
  bool waits_for(const RegionCopy& copy) const;
  cudaStream_t stream_of(DeviceQueue queue) const;
  void close() noexcept;
  /// The first action that may not have ended; an empty one if all have.
  Note first_open_note();
  void end_note(const Note& note);

  DeviceProperties properties_;
  std::array<cudaStream_t, 3> streams_{};  // to_device, from_device, exchange
  std::shared_ptr<Pinned> pinned_ = std::make_shared<Pinned>();
  std::shared_ptr<Moments> moments_ = std::make_shared<Moments>();
  std::atomic<std::int64_t> waits_ = 0;
  std::mutex notes_mutex_;
  std::deque<Note> notes_;
};

}  // namespace lockstep::cuda
