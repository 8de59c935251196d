#include "tensor/kernels/sums_kernel.hpp"

#include "tensor/kernels/wide.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep {

namespace {

constexpr std::int64_t block_values = 16384;

template <class M>
LOCKSTEP_CLONES double block_sum(const M* values, std::int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return sum;
}

}  // namespace

template <class M>
double sum_of_squares(const M* values, std::int64_t count) {
  const std::int64_t blocks = (count + block_values - 1) / block_values;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  double* const out = sums.data();
  parallel_for(blocks, 4, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      out[b] = block_sum<M>(values + b * block_values, std::min(block_values, count - b * block_values));
  });
  double sum = 0;
  for (const double block : sums) sum += block;
  return sum;
}

template <class M>
void add_square_sum(const M* values, std::int64_t count, double* sum) {
  *sum += sum_of_squares(values, count);
}

void sum_in_order(const double* values, std::int64_t count, double* sum) {
  double all = 0;
  for (std::int64_t i = 0; i < count; ++i) all += values[i];
  *sum = all;
}

void add_value(const double* value, bool counts, double* sum) {
  if (counts || !std::isfinite(*value)) *sum += *value;
}

template double sum_of_squares<float>(const float*, std::int64_t);
template double sum_of_squares<double>(const double*, std::int64_t);
template void add_square_sum<float>(const float*, std::int64_t, double*);
template void add_square_sum<double>(const double*, std::int64_t, double*);

}  // namespace lockstep
