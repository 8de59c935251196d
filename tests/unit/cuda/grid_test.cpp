// The host's blocks: threads that disagree about a barrier are found, and so is a missing one.
#include "cuda_on_host/cuda_on_host.hpp"

#include "cuda/kernels/reductions.cuh"
#include "kernel_checks.hpp"

#include <stdexcept>

BOOST_AUTO_TEST_SUITE(cuda_grid)

using namespace lockstep;
using namespace lockstep::test;

namespace {

void warps_add_their_lanes(float* sums) {
  const float sum = cuda::warp_sum(static_cast<float>(threadIdx.x));
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
void blocks_add_threads(double* sums) {
  sums[blockIdx.x * blockDim.x + threadIdx.x] = cuda::block_sum(static_cast<double>(threadIdx.x + blockIdx.x));
}
/// Each thread reads what the next one wrote.
void neighbours(int* out, bool waits) {
  LOCKSTEP_SHARED(int, values, 64);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (waits) __syncthreads();
  out[threadIdx.x] = values[(threadIdx.x + 1) % 64];
}
void half_waits(int) {
  if (threadIdx.x < 32) __syncthreads();
}
void two_barriers(int) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
void half_a_warp_shuffles(int) {
  if (threadIdx.x % 32 < 16) __shfl_xor_sync(0xffffffff, 1, 1);
}
void lanes_shuffle_alone(int) { __shfl_xor_sync(0xffff, 1, 1); }

void run(void (*kernel)(int)) { cuda::launch(kernel, 2, 64, 0, 0); }

}  // namespace

BOOST_AUTO_TEST_CASE(every_thread_gets_the_sum_of_its_warp_or_block) {
  const Results found = in_any_order([]() -> Results {
    Values<float> of_warps(2 * 64);
    Values<double> of_blocks(2 * 96);
    cuda::launch(warps_add_their_lanes, 2, 64, 0, of_warps.data());
    cuda::launch(blocks_add_threads, 2, 96, 0, of_blocks.data());
    return {of_warps.all(), of_blocks.all()};
  });
  for (std::size_t i = 0; i < 128; ++i) BOOST_TEST(found[0][i] == (i % 64 < 32 ? 496 : 496 + 32 * 32));
  for (std::size_t i = 0; i < 192; ++i) BOOST_TEST(found[1][i] == (i < 96 ? 4560 : 4560 + 96));
}

BOOST_AUTO_TEST_CASE(a_missing_barrier_shows_in_the_results) {
  for (const bool waits : {true, false}) {
    on_host::draw_orders(3);
    Values<std::int32_t> out(64);
    cuda::launch(neighbours, 1, 64, 0, out.data(), waits);
    int right = 0;
    for (std::int64_t i = 0; i < 64; ++i) right += out[i] == static_cast<double>((i + 1) % 64);
    BOOST_TEST((right == 64) == waits);
  }
}

BOOST_AUTO_TEST_CASE(threads_that_disagree_about_a_barrier_or_a_shuffle_are_an_error) {
  BOOST_CHECK_THROW(run(half_waits), std::runtime_error);
  BOOST_CHECK_THROW(run(two_barriers), std::runtime_error);
  BOOST_CHECK_THROW(run(half_a_warp_shuffles), std::runtime_error);
  BOOST_CHECK_THROW(run(lanes_shuffle_alone), std::runtime_error);
}

BOOST_AUTO_TEST_SUITE_END()
