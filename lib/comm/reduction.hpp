// The arithmetic of a reduction in rank order, without communication. Who moves the operands: comm/operations.cpp.
#pragma once

#include "comm/communicator.hpp"
#include "layout/dtype.hpp"

#include <optional>

namespace lockstep {

/// Reduces operands that are `into.size()` bytes long each, in their order, into `into`, which may be one of them.
/// bf16 accumulates in fp32 and is rounded once. Local. Throws Error(bug) for a type that reductions do not know.
void reduce_in_order(std::span<const std::byte* const> operands, std::span<std::byte> into, DType dtype, Reduce reduce);

/// What becomes of the elements that a sum finds where it goes, and of which type these are.
struct SumInto {
  enum class How { replace, add } how = How::replace;
  std::optional<DType> dtype = {};  // absent: that of the sum
};

/// Brings a `sum` of a floating type to `place`, elements of any of them. What is added is added in the wider of both
/// types and rounded once; of one type as reduce_in_order does it. Local. Throws Error(bug) for other types.
void put_sum(std::span<const std::byte> sum, DType dtype, std::span<std::byte> place, const SumInto& into);

}  // namespace lockstep
