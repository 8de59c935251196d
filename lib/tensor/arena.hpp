// Tensors by where their memory lies. What an arena holds is counted there (tensor/live_memory.hpp); the arena of the
// host may have a limit.
#pragma once

#include "base/region.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep {

/// No more of host memory than this is given out from now on; 0: no limit. Of this process. Any thread.
void limit_host_memory(std::int64_t bytes);

/// Memory of the host; what it held before is not cleared. Any thread. Throws Error(resources) with the arithmetic
/// above the limit, std::bad_alloc where the system has none.
c10::DataPtr host_memory(std::size_t bytes);

/// A flat tensor whose memory lies there; what it holds is not looked at before it is written. Throws as above.
at::Tensor empty_in(Arena arena, std::int64_t length, at::ScalarType type);

/// The memory of a contiguous tensor that lies there.
Region region_of(const at::Tensor& tensor, Arena arena);

}  // namespace lockstep
