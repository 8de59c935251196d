// The kernels of exchanges on the device: copies of pieces, and sums of operands. Contract:
// comm/exchange_kernels.hpp.
#pragma once

#include "comm/exchange_kernels.hpp"

namespace lockstep::cuda {

void copy_pieces(const MemoryCopy* copies, int count);
void sum_operands(const OperandSum& sum);

}  // namespace lockstep::cuda
