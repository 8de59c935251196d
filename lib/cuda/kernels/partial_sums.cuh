// Sums over rows, in two steps: blocks sum some rows each, and then their partial sums are added up. Both orders depend
// only on the number of rows.
#pragma once

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/reductions.cuh"

#include <algorithm>
#include <cstdint>

namespace lockstep::cuda {

/// target = Σ over blocks of partials (blocks, columns; `stride` between blocks) + β·target; β = 0 does not read the
/// target. A block has 32 columns, and each of its 32 warps every 32nd row.
template <class M>
__global__ void __launch_bounds__(1024)
    add_partials_kernel(const M* partials, std::int64_t blocks, std::int64_t columns, std::int64_t stride, M beta,
                        M* target) {
  LOCKSTEP_SHARED(M, of_warps, most_warps * warp_size);
  const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t column = std::int64_t{blockIdx.x} * warp_size + lane;
  M sum = 0;
  if (column < columns) {
    for (std::int64_t block = warp; block < blocks; block += most_warps) sum += partials[block * stride + column];
  }
  of_warps[warp * warp_size + lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= columns) return;
  sum = 0;
  for (int w = 0; w < most_warps; ++w) sum += of_warps[w * static_cast<int>(warp_size) + static_cast<int>(lane)];
  target[column] = beta == 0 ? sum : sum + beta * target[column];
}

template <class M>
void add_partials(const M* partials, std::int64_t blocks, std::int64_t columns, std::int64_t stride, double beta,
                  M* target) {
  launch(add_partials_kernel<M>, (columns + warp_size - 1) / warp_size, most_warps * warp_size, 0, partials, blocks,
         columns, stride, static_cast<M>(beta), target);
}

}  // namespace lockstep::cuda
