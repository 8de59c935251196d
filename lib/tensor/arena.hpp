// Tensors in an arena: memory of this process's device, or host memory. The bytes of each arena are counted in
// tensor/live_memory.hpp; the host arena may have a limit.
#pragma once

#include "device/region.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep {

/// Limits the host memory of this process from now on, in bytes; 0: no limit. Any thread.
void limit_host_memory(std::int64_t bytes);

/// Returns host memory, not cleared. Any thread. Throws Error(resources) with the arithmetic above the limit,
/// std::bad_alloc if the system has no memory.
c10::DataPtr host_memory(std::size_t bytes);

/// The options of tensors on this process's device (device/device.hpp).
at::TensorOptions device_options(at::ScalarType type);

/// Returns an uninitialised flat tensor in that arena. Throws as above.
at::Tensor empty_in(Arena arena, std::int64_t length, at::ScalarType type);

/// Returns the memory of a contiguous tensor that lies in that arena.
Region region_of(const at::Tensor& tensor, Arena arena);
/// Returns the memory of a contiguous tensor: host memory for one of the CPU.
Region region_of(const at::Tensor& tensor);

/// Returns the values of a contiguous fp64 tensor. On a device other than the CPU, the calling thread waits once.
/// Local.
std::vector<double> values_on_host(const at::Tensor& tensor);

}  // namespace lockstep
