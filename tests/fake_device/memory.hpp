// Memory of the fake device. It is mapped twice: tensors have addresses that no thread and no other process may touch,
// and jobs use the same bytes at other addresses. Freed memory is filled with NaN by a job of the compute queue.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lockstep::fake {

/// Numbers of allocations; 0: none.
struct MemoryFaults {
  std::int64_t no_memory_at = 0;  // throws
  std::int64_t freed_early = 0;   // is given to the next one too
};

/// Reserves `bytes` of device memory, once. `count` is told what tensors ask for. Throws Error(resources).
void reserve_memory(std::size_t bytes, const MemoryFaults& to_have, void (*count)(std::int64_t bytes));
std::size_t reserved_bytes();

/// The device that the process has opened, as LibTorch names it.
c10::Device tensor_device();
void set_tensor_device(int index);

/// The allocator of tensors on the device. Above the limit it throws c10::OutOfMemoryError.
c10::Allocator* tensor_memory();
std::int64_t bytes_in_use();
std::int64_t peak_bytes_in_use();

/// Whether the address is one of the device.
bool is_closed(const void* address);
/// The address at which a job finds the device memory at `closed`; null and pinned memory stay. Throws Error(bug) for
/// other addresses of the host.
void* opened(const void* closed);

/// Host memory that jobs may use at any time.
std::shared_ptr<std::byte> pinned_memory(std::size_t bytes);
bool is_pinned(const void* address);

}  // namespace lockstep::fake
