// Kernels that compute each value of a matrix on its own: a thread has a few neighbouring columns of a row.
#pragma once

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/numbers.cuh"

#include <algorithm>
#include <cstdint>

namespace lockstep::cuda {

/// The division of a matrix among blocks: short rows share a block, and long ones have several.
struct RowTiling {
  std::int64_t rows = 0, columns = 0;
  unsigned blocks_a_row = 0;
  int width = 0;         // threads for a row in a block
  int rows_a_block = 0;  // 1 if a row has several blocks
};

constexpr int over_rows_threads = 256;

inline RowTiling row_tiling(std::int64_t rows, std::int64_t columns, int lanes) {
  const std::int64_t packs = (columns + lanes - 1) / lanes;
  const std::int64_t blocks = std::max<std::int64_t>(1, (packs + over_rows_threads - 1) / over_rows_threads);
  const int width = static_cast<int>(std::max<std::int64_t>(1, (packs + blocks - 1) / blocks));
  return {rows, columns, static_cast<unsigned>(blocks), width, over_rows_threads / width};
}

/// Calls body(row, first column, count) for all columns: Body::lanes of them, or fewer at the end of a row.
template <class Body>
__global__ void __launch_bounds__(over_rows_threads) over_rows_kernel(RowTiling tiling, Body body) {
  const int slot = static_cast<int>(threadIdx.x) / tiling.width;
  const unsigned group = blockIdx.x / tiling.blocks_a_row, part = blockIdx.x % tiling.blocks_a_row;
  const std::int64_t row = std::int64_t{group} * tiling.rows_a_block + slot;
  const std::int64_t pack = std::int64_t{part} * tiling.width + static_cast<int>(threadIdx.x) % tiling.width;
  const std::int64_t column = pack * Body::lanes;
  if (slot >= tiling.rows_a_block || row >= tiling.rows || column >= tiling.columns) return;
  body(row, column, lanes_left<Body::lanes>(tiling.columns - column));
}

template <class Body>
void over_rows_in(CUstream_st* stream, std::int64_t rows, std::int64_t columns, const Body& body) {
  if (rows == 0 || columns == 0) return;
  const RowTiling tiling = row_tiling(rows, columns, Body::lanes);
  const std::int64_t groups = (rows + tiling.rows_a_block - 1) / tiling.rows_a_block;
  launch_in(stream, over_rows_kernel<Body>, groups * tiling.blocks_a_row, over_rows_threads, 0, tiling, body);
}
template <class Body>
void over_rows(std::int64_t rows, std::int64_t columns, const Body& body) {
  over_rows_in(compute_stream(), rows, columns, body);
}

}  // namespace lockstep::cuda
