// The device that holds the tensors of this process and runs its kernels. The CPU is one: its queues run at once. Other
// devices come with a plug-in (device/device_plugin.hpp). Includes neither CUDA nor LibTorch.
#pragma once

#include "device/nccl_table.hpp"
#include "device/region.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The queues of a device. Work in one queue runs in order. Work of different queues runs in any order that
/// Device::follow allows. Kernels run in the compute queue, and exchanges between devices in the exchange queue.
enum class DeviceQueue : std::uint8_t { compute, to_device, from_device, exchange };

/// A moment in a queue: all work queued before it has ended. Null: it is over.
using DeviceMoment = std::shared_ptr<void>;

/// Memory of a device that a process takes besides its tensors.
struct DeviceOverhead {
  std::int64_t context_bytes = 0;    // when the device is opened
  std::int64_t workspace_bytes = 0;  // of libraries, once they compute
  // of NCCL, for each group of ranks that it connects: an estimate
  std::int64_t communicator_bytes = 0;
};

/// Rows of vocabulary matrices on a GPU: with 50257 columns products took 5 to 8 times as long as with 50304 (H100,
/// cuBLAS 13.0).
constexpr std::int64_t gpu_vocabulary_multiple = 64;

struct DeviceProperties {
  std::string name;               // "CPU", "NVIDIA H100 80GB HBM3"
  std::string uuid;               // distinguishes devices of a machine; empty for the CPU
  std::int64_t memory_bytes = 0;  // 0: that of the machine
  DeviceOverhead overhead = {};
  // Rows of vocabulary matrices are allocated to a multiple of this (pad_vocabulary of architecture/architecture.hpp).
  std::int64_t vocabulary_multiple = 1;
  int multiprocessors = 0;  // of an NVIDIA GPU, which may compute attention with LibTorch; 0: another device
  int numa_node = -1;       // nearest to it; -1: unknown
  int tensor_type = 0;      // c10::DeviceType of its tensors
  int tensor_index = 0;     // and their c10::DeviceIndex
  bool is_host = true;      // its memory is that of the host
};

/// Numbers of a device since it was opened.
struct DeviceCounts {
  std::int64_t waits = 0;  // of threads of the host for the device
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceProperties& properties() const = 0;
  virtual DeviceCounts counts() const = 0;
  /// Bytes of device memory that no process uses now. Throws Error(resources) if the device has failed.
  virtual std::int64_t free_memory() const = 0;
  /// Host memory that the device reads and writes directly. Any thread. Throws Error(resources).
  virtual std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) = 0;
  /// Queues copies. Pinned host memory must stay unchanged until they have ended; other host memory may be reused at
  /// once if it is read, and has its values at once if it is written. Any thread.
  virtual void copy(std::span<const RegionCopy> copies, DeviceQueue queue) = 0;
  /// The moment after all work that is in the queue now. Any thread.
  virtual DeviceMoment record(DeviceQueue queue) = 0;
  /// Work that is queued from now on begins after the moment. Any thread.
  virtual void follow(DeviceQueue queue, const DeviceMoment& moment) = 0;
  /// The queue as the libraries of the device know it, a cudaStream_t; null for the CPU. Any thread.
  virtual void* handle_of(DeviceQueue /*queue*/) { return nullptr; }
  virtual bool is_over(const DeviceMoment& moment) = 0;
  /// When a moment that is over was reached, in monotonic seconds of the host. Any thread.
  virtual double seconds_of(const DeviceMoment& moment) = 0;
  /// Waits for the moment. Any thread. Throws Error(resources) if the device has failed.
  virtual void wait(const DeviceMoment& moment) = 0;
  /// The work of `action` ends with the work that is in the compute queue now. The error of a device that has failed
  /// names the last action whose work has ended. From one thread.
  virtual void note(std::string /*action*/) {}
};

/// Returns the CPU as a device.
std::unique_ptr<Device> make_cpu();

/// The device of this process: the CPU unless another one is in use.
Device& this_device();
/// From now on this process computes on `device`. Returns the device that it leaves. Call it while there are no tensors
/// and no pinned memory is in use, from one thread.
std::unique_ptr<Device> use_device(std::unique_ptr<Device> device);

/// The functions with which ranks exchange memory of the device in use; null: they exchange through host memory.
const NcclTable* nccl_in_use();
/// From now on, until another device is in use. Call it as use_device.
void use_nccl(const NcclTable* nccl);

/// Pinned memory of this process's device, from a pool. Released memory is used again once the work that is queued at
/// its release has ended. Any thread. Throws as Device::pinned_memory does.
std::shared_ptr<std::byte> pinned_memory(std::size_t bytes);

/// Whether the host may touch the region: host memory, and all memory of the CPU.
bool is_host_memory(const Region& region);
/// The bytes of a region of host memory. Throws Error(bug) for memory of another device.
std::span<std::byte> host_bytes(const Region& region);

/// Copies a region to host memory, and host memory to a region of the same length, after all kernels that are queued.
/// A device other than the CPU is waited for where it is read. Local.
void read_region(const Region& from, std::span<std::byte> into);
void write_region(std::span<const std::byte> from, const Region& into);

/// Calls `work(begin, bytes)` for consecutive parts of a region, which begin at byte `begin` of it: once for host
/// memory, otherwise with copies of at most 16 MiB. Local.
void for_each_host_part(const Region& region,
                        const std::function<void(std::size_t begin, std::span<const std::byte> bytes)>& work);

}  // namespace lockstep
