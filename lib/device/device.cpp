#include "device/device.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/free_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace lockstep {

namespace {

/// Its queues run at once, so every moment is over.
class Cpu final : public Device {
 public:
  const DeviceProperties& properties() const override { return properties_; }
  DeviceCounts counts() const override { return {}; }
  std::int64_t free_memory() const override { return 0; }
  std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) override {
    constexpr std::size_t alignment = 64;
    auto* const memory =
        static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment));
    if (memory == nullptr) throw std::bad_alloc();
    return {memory, FreeMemory()};
  }
  void copy(std::span<const RegionCopy> copies, DeviceQueue) override {
    for (const RegionCopy& one : copies)
      if (one.from.pointer != one.to.pointer) std::memmove(one.to.pointer, one.from.pointer, one.from.bytes);
  }
  DeviceMoment record(DeviceQueue) override { return nullptr; }
  void follow(DeviceQueue, const DeviceMoment&) override {}
  bool is_over(const DeviceMoment&) override { return true; }
  double seconds_of(const DeviceMoment&) override { return monotonic_seconds(); }
  void wait(const DeviceMoment&) override {}

 private:
  DeviceProperties properties_{.name = "CPU"};
};

std::unique_ptr<Device>& device_in_use() {
  static auto* const device = new std::unique_ptr<Device>(make_cpu());  // outlives static tensors
  return *device;
}

/// Released blocks, each with the moments that it waits for.
class PinnedPool {
 public:
  std::shared_ptr<std::byte> take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(released_, [&](const Block& block) {
      return block.bytes >= bytes && block.bytes <= 2 * bytes && std::ranges::all_of(block.moments, is_over);
    });
    Block block;
    if (found == released_.end()) {
      block = {this_device().pinned_memory(bytes), bytes, {}};
    } else {
      block = std::move(*found);
      released_.erase(found);
    }
    std::byte* const memory = block.memory.get();
    return {memory, [this, kept = std::move(block)](std::byte*) mutable { give(std::move(kept)); }};
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    released_.clear();
  }

 private:
  struct Block {
    std::shared_ptr<std::byte> memory;
    std::size_t bytes = 0;
    std::vector<DeviceMoment> moments;
  };
  static bool is_over(const DeviceMoment& moment) { return this_device().is_over(moment); }
  void give(Block block) {
    block.moments.clear();
    for (const DeviceQueue queue : {DeviceQueue::compute, DeviceQueue::to_device, DeviceQueue::from_device})
      block.moments.push_back(this_device().record(queue));
    const std::lock_guard lock(mutex_);
    released_.push_back(std::move(block));
  }

  std::mutex mutex_;
  std::vector<Block> released_;
};

PinnedPool& pinned_pool() {
  static auto* const pool = new PinnedPool;  // outlives static tensors
  return *pool;
}

void copy_behind_kernels(const Region& from, const Region& to) {
  const RegionCopy copy{from, to};
  this_device().copy({&copy, 1}, DeviceQueue::compute);
}

}  // namespace

std::unique_ptr<Device> make_cpu() { return std::make_unique<Cpu>(); }

Device& this_device() { return *device_in_use(); }

namespace {
const NcclTable* nccl_of_device = nullptr;
}

const NcclTable* nccl_in_use() { return nccl_of_device; }
void use_nccl(const NcclTable* nccl) { nccl_of_device = nccl; }

std::unique_ptr<Device> use_device(std::unique_ptr<Device> device) {
  pinned_pool().clear();
  nccl_of_device = nullptr;
  return std::exchange(device_in_use(), std::move(device));
}

std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) { return pinned_pool().take(bytes); }

bool is_host_memory(const Region& region) { return region.arena == Arena::host || this_device().properties().is_host; }

std::span<std::byte> host_bytes(const Region& region) {
  invariant(is_host_memory(region), "the host touches its own memory alone");
  return {region.pointer, region.bytes};
}

void read_region(const Region& from, std::span<std::byte> into) {
  invariant(from.bytes == into.size(), "a region is read whole");
  if (is_host_memory(from))
    std::ranges::copy(host_bytes(from), into.begin());
  else if (!into.empty())
    copy_behind_kernels(from, {Arena::host, into.data(), into.size()});
}

void for_each_host_part(const Region& region,
                        const std::function<void(std::size_t begin, std::span<const std::byte> bytes)>& work) {
  if (is_host_memory(region)) return work(0, host_bytes(region));
  constexpr std::size_t at_once = 16 << 20;
  std::vector<std::byte> copy(std::min(at_once, region.bytes));
  for (std::size_t begin = 0; begin < region.bytes; begin += at_once) {
    const std::span<std::byte> part = std::span(copy).first(std::min(at_once, region.bytes - begin));
    read_region(part_of(region, begin, part.size()), part);
    work(begin, part);
  }
}

void write_region(std::span<const std::byte> from, const Region& into) {
  invariant(from.size() == into.bytes, "a region is written whole");
  if (is_host_memory(into)) {
    std::ranges::copy(from, into.pointer);
    return;
  }
  if (from.empty()) return;
  // The copy only reads this memory.
  copy_behind_kernels({Arena::host, const_cast<std::byte*>(from.data()), from.size()}, into);
}

}  // namespace lockstep
