// Allocation of tensors in an arena: device or host memory. The bytes of each arena are counted in
// tensor/live_memory.hpp; the host arena may have a limit.
#pragma once

#include "base/region.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// Limits the host memory of this process from now on, in bytes; 0: no limit. Any thread.
void limit_host_memory(std::int64_t bytes);

/// Returns host memory, not cleared. Any thread. Throws Error(resources) with the arithmetic above the limit,
/// std::bad_alloc if the system has no memory.
c10::DataPtr host_memory(std::size_t bytes);

/// Returns an uninitialised flat tensor in that arena. Throws as above.
at::Tensor empty_in(Arena arena, std::int64_t length, at::ScalarType type);

/// Returns the memory of a contiguous tensor that lies in that arena.
Region region_of(const at::Tensor& tensor, Arena arena);

}  // namespace lockstep
