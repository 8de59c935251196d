// The arithmetic of a reduction in rank order, without communication. Who moves the operands:
// comm/mpi_communicator.cpp.
#pragma once

#include "comm/communicator.hpp"

namespace lockstep {

/// Reduces operands that are `into.size()` bytes long each, in their order, into `into`, which may be one of them.
/// bf16 accumulates in fp32 and is rounded once. Local. Throws Error(bug) for a type that reductions do not know.
void reduce_in_order(std::span<const std::byte* const> operands, std::span<std::byte> into, DType dtype, Reduce reduce);

}  // namespace lockstep
