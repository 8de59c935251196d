#include "cuda/kernels/muon_iteration.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"

namespace lockstep::cuda {

namespace {

constexpr int tile = 32, tile_rows = 8;  // a thread has every eighth row of a tile

template <class M>
__global__ void __launch_bounds__(tile* tile_rows)
    transpose_kernel(const M* from, std::int64_t rows, std::int64_t cols, std::int64_t tiles_a_row, M* to) {
  LOCKSTEP_SHARED(M, values, tile * (tile + 1));
  const int column = static_cast<int>(threadIdx.x) % tile, first = static_cast<int>(threadIdx.x) / tile;
  const std::int64_t top = blockIdx.x / tiles_a_row * tile, left = blockIdx.x % tiles_a_row * tile;
  for (int row = first; row < tile; row += tile_rows)
    if (top + row < rows && left + column < cols)
      values[row * (tile + 1) + column] = from[(top + row) * cols + left + column];
  __syncthreads();
  for (int row = first; row < tile; row += tile_rows)
    if (left + row < cols && top + column < rows)
      to[(left + row) * rows + top + column] = values[column * (tile + 1) + row];
}

template <class M>
struct DivideByNorm {
  static constexpr int lanes = lanes_of_access<M>;
  M* values;
  bool packed;
  const double* square_sum;
  double least;

  __device__ void operator()(std::int64_t, std::int64_t column, int count) const {
    const double norm = sqrt(*square_sum);
    const auto factor = static_cast<M>(1 / (norm > least ? norm : least));
    M own[lanes];
    load_values(static_cast<const M*>(values) + column, count, packed, own);
#pragma unroll
    for (int i = 0; i < lanes; ++i) own[i] *= factor;
    store_values(own, count, packed, values + column);
  }
};

}  // namespace

template <class M>
void transpose(const M* from, std::int64_t rows, std::int64_t cols, M* to) {
  const std::int64_t tiles_a_row = (cols + tile - 1) / tile;
  launch(transpose_kernel<M>, (rows + tile - 1) / tile * tiles_a_row, tile * tile_rows, 0, from, rows, cols,
         tiles_a_row, to);
}

template <class M>
void divide_by_norm(M* values, std::int64_t count, const double* square_sum, double least) {
  over_rows(1, count, DivideByNorm<M>{values, packable(0, lanes_of_access<M>, {values}), square_sum, least});
}

template void transpose<float>(const float*, std::int64_t, std::int64_t, float*);
template void transpose<double>(const double*, std::int64_t, std::int64_t, double*);
template void divide_by_norm<float>(float*, std::int64_t, const double*, double);
template void divide_by_norm<double>(double*, std::int64_t, const double*, double);

}  // namespace lockstep::cuda
