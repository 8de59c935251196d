#include "comm/exchange_kernels.hpp"

#include "comm/reduction.hpp"

#include <cstring>
#include <span>
#include <vector>

namespace lockstep {

namespace {

void copy_pieces(const MemoryCopy* copies, int count) {
  for (const MemoryCopy& one : std::span(copies, static_cast<std::size_t>(count)))
    std::memmove(one.to, one.from, static_cast<std::size_t>(one.bytes));
}

void sum_operands(const OperandSum& sum) {
  const auto elements = static_cast<std::size_t>(sum.elements);
  const auto width = static_cast<std::size_t>(size_of(sum.dtype)),
             place_width = static_cast<std::size_t>(size_of(sum.place_dtype));
  std::vector<const std::byte*> operands;
  for (int i = 0; i < sum.count; ++i) operands.push_back(sum.operands + i * sum.distance);
  std::vector<std::byte> total(elements * width);
  reduce_in_order(operands, total, sum.dtype, Reduce::sum);
  write_sum(total, sum.dtype, {sum.place, elements * place_width},
            {.how = sum.adds ? SumInto::Mode::add : SumInto::Mode::replace, .dtype = sum.place_dtype});
}

}  // namespace

ExchangeKernels cpu_exchange_kernels() { return {.copy_pieces = copy_pieces, .sum_operands = sum_operands}; }

}  // namespace lockstep
