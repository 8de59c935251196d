// The arithmetic of a reduction in rank order, without communication. comm/operations.cpp moves the operands.
#pragma once

#include "comm/communicator.hpp"
#include "layout/dtype.hpp"

#include <optional>

namespace lockstep {

/// Reduces operands of `into.size()` bytes each, in their order, into `into`, which may be one of them. bf16 and fp16
/// accumulate in fp32 and are rounded once. Local. Throws Error(bug) for a type without reductions.
void reduce_in_order(std::span<const std::byte* const> operands, std::span<std::byte> into, DType dtype, Reduce reduce);

/// Mode a sum enters its destination (it replaces or adds to the old elements), and the type of the destination.
struct SumInto {
  enum class Mode { replace, add } how = Mode::replace;
  std::optional<DType> dtype = {};  // default: the type of the sum
};

/// Writes a `sum` of a floating type to `place`, whose elements may have another floating type. If it adds, it adds in
/// the wider of both types and rounds once; for equal types it adds as reduce_in_order does. Local. Throws Error(bug)
/// for other types.
void write_sum(std::span<const std::byte> sum, DType dtype, std::span<std::byte> place, const SumInto& into);

}  // namespace lockstep
