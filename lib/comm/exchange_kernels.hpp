// The kernels of exchanges between ranks: they copy scattered pieces, and add up the operands of all ranks. They run in
// the exchange queue of the device. The transport calls them through a table.
#pragma once

#include "layout/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace lockstep {

struct MemoryCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
};

/// place = the sum of `count` operands, or place += that sum, as reduce_in_order and write_sum of comm/reduction.hpp
/// compute them. Operands have `elements` elements each and lie `distance` bytes apart.
struct OperandSum {
  const std::byte* operands = nullptr;
  std::int64_t distance = 0;
  int count = 0;
  std::int64_t elements = 0;
  DType dtype = DType::f32;  // of the operands: floating
  std::byte* place = nullptr;
  DType place_dtype = DType::f32;  // floating
  bool adds = false;
};

struct ExchangeKernels {
  /// The places that are written do not overlap.
  void (*copy_pieces)(const MemoryCopy* copies, int count) = nullptr;
  void (*sum_operands)(const OperandSum& sum) = nullptr;
};

/// Returns the kernels of the CPU, which run at once.
ExchangeKernels cpu_exchange_kernels();

}  // namespace lockstep
