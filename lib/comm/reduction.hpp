// The arithmetic of a reduction in rank order, without communication. Who moves the operands: comm/mpi_communicator.cpp.
#pragma once

#include "comm/communicator.hpp"

namespace lockstep {

/// Reduces `parts` operands that lie one after the other in `operands`, each `into.size()` bytes long, in their order, into `into`;
/// `into` is not inside `operands`. bf16 accumulates in fp32 and is rounded once.
/// Local. Throws Error(bug) for a type that reductions do not know.
void reduce_in_order(std::span<const std::byte> operands, int parts, std::span<std::byte> into, DType dtype, Reduce reduce);

}  // namespace lockstep
