#include "cuda/kernels/sum_columns.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/partial_sums.cuh"

namespace lockstep::cuda {

namespace {

constexpr int column_warps = 8;  // of a block

/// A block has some rows of 32 packs of columns: a lane has a pack, and a warp every 8th of the rows.
template <class T>
__global__ void __launch_bounds__(column_warps* static_cast<int>(warp_size))
    sum_columns_of_rows(const T* values, std::int64_t rows, std::int64_t rows_a_block, std::int64_t columns,
                        std::int64_t stride, bool packed, unsigned tiles, Math<T>* partials) {
  using M = Math<T>;
  constexpr int lanes = lanes_of_access<T>, width = lanes * static_cast<int>(warp_size);
  LOCKSTEP_SHARED(M, of_warps, column_warps * width);
  const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
  const std::int64_t tile = blockIdx.x % tiles, block = blockIdx.x / tiles;
  const std::int64_t column = tile * width + lane * lanes, end = std::min(rows, (block + 1) * rows_a_block);
  const int count = lanes_left<lanes>(columns - column);
  M sums[lanes] = {};
  for (std::int64_t row = block * rows_a_block + warp; row < end; row += column_warps) {
    M more[lanes];
    load_values(values + row * stride + column, count, packed, more);
#pragma unroll
    for (int i = 0; i < lanes; ++i) sums[i] += more[i];
  }
#pragma unroll
  for (int i = 0; i < lanes; ++i) of_warps[warp * width + lane * lanes + i] = sums[i];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  if (own >= width || tile * width + own >= columns) return;
  M sum = 0;
#pragma unroll
  for (int w = 0; w < column_warps; ++w) sum += of_warps[w * width + own];
  partials[block * columns + tile * width + own] = sum;
}

}  // namespace

template <class T>
void column_sums(const T* values, std::int64_t rows, std::int64_t columns, std::int64_t stride, double beta,
                 Math<T>* target) {
  constexpr int lanes = lanes_of_access<T>, width = lanes * static_cast<int>(warp_size);
  constexpr std::int64_t most_blocks = 256;
  const std::int64_t rows_a_block = std::max<std::int64_t>(32, (rows + most_blocks - 1) / most_blocks);
  const std::int64_t blocks = (rows + rows_a_block - 1) / rows_a_block, tiles = (columns + width - 1) / width;
  auto* const partials =
      static_cast<Math<T>*>(kernel_scratch(static_cast<std::size_t>(blocks * columns) * sizeof(Math<T>)));
  launch(sum_columns_of_rows<T>, blocks * tiles, column_warps * warp_size, 0, values, rows, rows_a_block, columns,
         stride, packable(stride, lanes, {values}), static_cast<unsigned>(tiles), partials);
  add_partials(partials, blocks, columns, columns, beta, target);
}

#define LOCKSTEP_INSTANTIATE(T) \
  template void column_sums<T>(const T*, std::int64_t, std::int64_t, std::int64_t, double, Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
