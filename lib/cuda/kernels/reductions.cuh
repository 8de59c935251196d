// Sums over the threads of a block. Their order depends only on the number of threads, and every thread gets the same
// bits.
#pragma once

#include "cuda/kernels/launch.cuh"

#include <cstdint>

namespace lockstep::cuda {

constexpr unsigned warp_size = 32;
constexpr unsigned all_lanes = 0xffffffff;
constexpr int most_warps = 32;  // of a block

/// The sum over each `width` lanes of a warp; a power of 2.
template <class M>
__device__ M warp_sum(M value, int width = warp_size) {
  for (int step = width / 2; step > 0; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
  return value;
}

template <class M>
__device__ M warp_max(M value, int width = warp_size) {
  for (int step = width / 2; step > 0; step /= 2) {
    const M other = __shfl_xor_sync(all_lanes, value, step);
    value = other > value ? other : value;
  }
  return value;
}

/// Replaces each of `count` values by its reduction over the block: `reduce` is that of a warp, and `empty` the value
/// of no thread. Called by all threads of a block.
template <int count, class M, class Reduce>
__device__ void block_reduce(M (&values)[count], M empty, const Reduce& reduce) {
  LOCKSTEP_SHARED(M, of_warps, most_warps * count);
  const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size, warps = blockDim.x / warp_size;
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = reduce(values[i]);
  if (warps == 1) return;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) of_warps[warp * count + i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = reduce(lane < warps ? of_warps[lane * count + i] : empty);
  __syncthreads();  // the next reduction may write
}

template <class M>
struct WarpSum {
  __device__ M operator()(M value) const { return warp_sum(value); }
};
template <class M>
struct WarpMax {
  __device__ M operator()(M value) const { return warp_max(value); }
};

template <int count, class M>
__device__ void block_sums(M (&values)[count]) {
  block_reduce(values, M{0}, WarpSum<M>{});
}
template <class M>
__device__ M block_sum(M value) {
  M values[1] = {value};
  block_sums(values);
  return values[0];
}

/// The sum of `value` over earlier threads of the block; `total` gets that over all.
__device__ inline int sum_before(int value, int& total) {
  LOCKSTEP_SHARED(int, of_warps, most_warps);
  const int lane = static_cast<int>(threadIdx.x % warp_size), warp = static_cast<int>(threadIdx.x / warp_size);
  int sum = value;
  for (int step = 1; step < static_cast<int>(warp_size); step *= 2) {
    const int other = __shfl_up_sync(all_lanes, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += other;
  }
  if (lane == static_cast<int>(warp_size) - 1) of_warps[warp] = sum;
  __syncthreads();
  int before = sum - value;
  total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x / warp_size); ++w) {
    if (w < warp) before += of_warps[w];
    total += of_warps[w];
  }
  __syncthreads();  // the next call may write
  return before;
}

}  // namespace lockstep::cuda
