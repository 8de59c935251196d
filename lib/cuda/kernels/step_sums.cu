#include "cuda/kernels/step_sums.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/reductions.cuh"

namespace lockstep::cuda {

namespace {

constexpr int square_threads = 256;
constexpr std::int64_t square_blocks = 1024;  // at most

/// sums[block] = Σ value² over every gridDim-th pack of the blocks' threads.
template <class M>
__global__ void __launch_bounds__(square_threads)
    square_sums(const M* values, std::int64_t count, bool packed, double* sums) {
  constexpr int lanes = lanes_of_access<M>;
  double sum = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * square_threads * lanes;
#pragma unroll 4
  for (std::int64_t i = (std::int64_t{blockIdx.x} * square_threads + threadIdx.x) * lanes; i < count; i += step) {
    M more[lanes];
    load_values(values + i, lanes_left<lanes>(count - i), packed, more);
#pragma unroll
    for (int k = 0; k < lanes; ++k) sum += static_cast<double>(more[k]) * static_cast<double>(more[k]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// sum = Σ values, or sum += Σ values: one block.
__global__ void __launch_bounds__(1024)
    sum_of_values(const double* values, std::int64_t count, bool adds, double* sum) {
  double all = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) all += values[i];
  all = block_sum(all);
  if (threadIdx.x == 0) *sum = adds ? *sum + all : all;
}

__global__ void __launch_bounds__(32) add_one_value(const double* value, bool counts, double* sum) {
  const bool finite = *value - *value == 0;
  if (threadIdx.x == 0 && (counts || !finite)) *sum += *value;
}

}  // namespace

template <class M>
void add_square_sum(const M* values, std::int64_t count, double* sum) {
  constexpr std::int64_t values_a_block = 4 * square_threads * lanes_of_access<M>;
  const std::int64_t blocks = std::min(square_blocks, (count + values_a_block - 1) / values_a_block);
  auto* const sums = static_cast<double*>(kernel_scratch(static_cast<std::size_t>(blocks) * sizeof(double)));
  launch(square_sums<M>, blocks, square_threads, 0, values, count, packable(0, lanes_of_access<M>, {values}), sums);
  launch(sum_of_values, 1, 1024, 0, sums, blocks, true, sum);
}

void sum_in_order(const double* values, std::int64_t count, double* sum) {
  launch(sum_of_values, 1, 1024, 0, values, count, false, sum);
}

void add_value(const double* value, bool counts, double* sum) { launch(add_one_value, 1, 32, 0, value, counts, sum); }

template void add_square_sum<float>(const float*, std::int64_t, double*);
template void add_square_sum<double>(const double*, std::int64_t, double*);

}  // namespace lockstep::cuda
