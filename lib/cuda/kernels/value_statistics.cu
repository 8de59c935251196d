#include "cuda/kernels/value_statistics.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/reductions.cuh"

namespace lockstep::cuda {

namespace {

constexpr int statistics_threads = 256;
constexpr int piece_values = 4096;                // few enough to be in a cache when they are read again
constexpr std::int64_t statistics_blocks = 1024;  // at most

__device__ inline void merge(Statistics& sum, const Statistics& other) {
  sum.nan += other.nan;
  sum.infinite += other.infinite;
  if (other.finite == 0) return;
  sum.min = sum.finite == 0 ? other.min : std::min(sum.min, other.min);
  sum.max = sum.finite == 0 ? other.max : std::max(sum.max, other.max);
  sum.zeros += other.zeros;
  const auto before = static_cast<double>(sum.finite), more = static_cast<double>(other.finite), all = before + more;
  const double distance = other.mean - sum.mean;
  sum.mean += distance * (more / all);
  sum.squares += other.squares + distance * (distance * (before * more / all));  // the inner product may be 0
  sum.finite += other.finite;
}

__device__ inline bool is_finite(double value) { return value - value == 0; }

/// Of one piece, by all threads of a block.
template <class T>
__device__ Statistics statistics_of_piece(const T* values, std::int64_t count, bool packed) {
  constexpr int lanes = lanes_of_access<T>;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double part = 1.0 / piece_values;  // so that no sum of finite values is infinite
  double sums[5] = {};                         // of values, finite ones, NaN, infinite ones and zeros
  double ends[2] = {-infinity, -infinity};     // −minimum, maximum
  for (std::int64_t i = threadIdx.x * lanes; i < count; i += statistics_threads * lanes) {
    Math<T> more[lanes];
    const int own = lanes_left<lanes>(count - i);
    load_values(values + i, own, packed, more);
#pragma unroll
    for (int k = 0; k < lanes; ++k) {
      if (k >= own) continue;
      const auto value = static_cast<double>(more[k]);
      const bool finite = is_finite(value);
      sums[1] += finite ? 1 : 0;
      sums[2] += value != value ? 1 : 0;
      sums[3] += !finite && value == value ? 1 : 0;
      sums[4] += value == 0 ? 1 : 0;
      if (!finite) continue;
      sums[0] += value * part;
      ends[0] = std::max(ends[0], -value);
      ends[1] = std::max(ends[1], value);
    }
  }
  block_sums(sums);
  block_reduce(ends, -infinity, WarpMax<double>{});
  Statistics piece;
  piece.finite = static_cast<std::int64_t>(sums[1]);
  piece.nan = static_cast<std::int64_t>(sums[2]);
  piece.infinite = static_cast<std::int64_t>(sums[3]);
  piece.zeros = static_cast<std::int64_t>(sums[4]);
  if (piece.finite > 0) {
    piece.min = -ends[0];
    piece.max = ends[1];
    piece.mean = sums[0] / sums[1] * piece_values;
  }
  double squares = 0;
  for (std::int64_t i = threadIdx.x * lanes; i < count; i += statistics_threads * lanes) {
    Math<T> more[lanes];
    const int own = lanes_left<lanes>(count - i);
    load_values(values + i, own, packed, more);
#pragma unroll
    for (int k = 0; k < lanes; ++k) {
      const double distance = static_cast<double>(more[k]) - piece.mean;
      if (k < own && is_finite(static_cast<double>(more[k]))) squares += distance * distance;
    }
  }
  piece.squares = block_sum(squares);
  return piece;
}

/// A block has every gridDim-th piece.
template <class T>
__global__ void __launch_bounds__(statistics_threads)
    statistics_of_pieces(const T* values, std::int64_t count, bool packed, Statistics* of_blocks) {
  Statistics all;
  const std::int64_t step = std::int64_t{gridDim.x} * piece_values;
  for (std::int64_t first = std::int64_t{blockIdx.x} * piece_values; first < count; first += step) {
    const std::int64_t own = std::min<std::int64_t>(piece_values, count - first);
    merge(all, statistics_of_piece(values + first, own, packed));
  }
  if (threadIdx.x == 0) of_blocks[blockIdx.x] = all;
}

/// Merges the statistics of all blocks into `sum`: one block, whose threads merge neighbours and then halves.
__global__ void __launch_bounds__(statistics_threads)
    merge_statistics(const Statistics* of_blocks, int blocks, Statistics* sum) {
  constexpr int each = static_cast<int>(statistics_blocks) / statistics_threads;
  // Shared memory has no constructors, and each thread writes its statistics before others read them.
  LOCKSTEP_SHARED(double, numbers, statistics_threads * sizeof(Statistics) / sizeof(double));
  auto* const of_threads = reinterpret_cast<Statistics*>(numbers);
  const int thread = static_cast<int>(threadIdx.x);
  Statistics own;
  for (int b = thread * each; b < std::min(blocks, (thread + 1) * each); ++b) merge(own, of_blocks[b]);
  of_threads[thread] = own;
  for (int half = statistics_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) merge(of_threads[thread], of_threads[thread + half]);
  }
  if (thread == 0) merge(*sum, of_threads[0]);
}

}  // namespace

template <class T>
void add_statistics(const T* values, std::int64_t count, Statistics* sum) {
  const std::int64_t blocks = std::min(statistics_blocks, (count + piece_values - 1) / piece_values);
  auto* const of_blocks =
      static_cast<Statistics*>(kernel_scratch(static_cast<std::size_t>(blocks) * sizeof(Statistics)));
  launch(statistics_of_pieces<T>, blocks, statistics_threads, 0, values, count,
         packable(0, lanes_of_access<T>, {values}), of_blocks);
  launch(merge_statistics, 1, statistics_threads, 0, of_blocks, static_cast<int>(blocks), sum);
}

template void add_statistics<float>(const float*, std::int64_t, Statistics*);
template void add_statistics<double>(const double*, std::int64_t, Statistics*);
template void add_statistics<Bf16>(const Bf16*, std::int64_t, Statistics*);
template void add_statistics<Fp16>(const Fp16*, std::int64_t, Statistics*);

}  // namespace lockstep::cuda
