#include "tensor/kernels/statistics_kernel.hpp"

#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {

namespace {

constexpr std::int64_t block_values = 4096;  // few enough to be in cache when they are read again

struct Extent {
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double greatest = -std::numeric_limits<double>::infinity();
  std::int64_t zeros = 0;
};

template <class T>
LOCKSTEP_CLONES Extent extent_of(const T* values, std::int64_t count) {
  double sum = 0, least = std::numeric_limits<double>::infinity(), greatest = -least;
  std::int64_t zeros = 0;
#pragma omp simd reduction(+ : sum, zeros) reduction(min : least) reduction(max : greatest)
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(load(values[i]));
    sum += value;
    zeros += value == 0 ? 1 : 0;
    least = value < least ? value : least;
    greatest = value > greatest ? value : greatest;
  }
  return {sum, least, greatest, zeros};
}

template <class T>
LOCKSTEP_CLONES double squares_around(double mean, const T* values, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    const double distance = static_cast<double>(load(values[i])) - mean;
    sum += distance * distance;
  }
  return sum;
}

template <class T>
Statistics block_statistics(const T* values, std::int64_t count) {
  Statistics block;
  const Extent extent = extent_of(values, count);
  if (!std::isfinite(extent.sum)) {  // some value is not finite, or their sum is beyond fp64
    for (std::int64_t i = 0; i < count; ++i) block.add(static_cast<double>(load(values[i])));
    return block;
  }
  block.finite = count;
  block.zeros = extent.zeros;
  block.min = extent.least;
  block.max = extent.greatest;
  block.mean = extent.sum / static_cast<double>(count);
  block.squares = squares_around(block.mean, values, count);
  return block;
}

}  // namespace

template <class T>
Statistics statistics_of(const T* values, std::int64_t count) {
  const std::int64_t blocks = (count + block_values - 1) / block_values;
  std::vector<Statistics> of_blocks(static_cast<std::size_t>(blocks));
  Statistics* const out = of_blocks.data();
  parallel_for(blocks, 4, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      out[b] = block_statistics(values + b * block_values, std::min(block_values, count - b * block_values));
  });
  Statistics all;
  for (const Statistics& block : of_blocks) all.add(block);
  return all;
}

template <class T>
void add_statistics(const T* values, std::int64_t count, Statistics* sum) {
  sum->add(statistics_of(values, count));
}

#define LOCKSTEP_INSTANTIATE(T)                                 \
  template Statistics statistics_of<T>(const T*, std::int64_t); \
  template void add_statistics<T>(const T*, std::int64_t, Statistics*);
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
