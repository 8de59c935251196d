#include "optim/adamw_kernel.hpp"

#include "tensor/parallel.hpp"

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

template <class M>
LOCKSTEP_INLINE void update(const AdamWFactors<M>& f, M gradient, M& weight, M& first, M& second) {
  const M g = gradient * f.gradient_scale;
  const M m = first + (1 - f.beta1) * (g - first);
  const M v = f.beta2 * second + (1 - f.beta2) * g * g;
  first = m;
  second = v;
  weight = weight * f.keep - f.step_size * m / (std::sqrt(v) / f.correction + f.epsilon);
}

template <class M>
LOCKSTEP_CLONES void update_range(const AdamWFactors<M>& factors, std::int64_t count, const M* __restrict gradient, M* __restrict weight,
                                  M* __restrict first, M* __restrict second) {
  const AdamWFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) update(f, gradient[i], weight[i], first[i], second[i]);
}

template <class M>
LOCKSTEP_CLONES void update_range_rounding(const AdamWFactors<M>& factors, std::int64_t count, const M* __restrict gradient,
                                           M* __restrict weight, M* __restrict first, M* __restrict second, Bf16* __restrict compute) {
  const AdamWFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    update(f, gradient[i], weight[i], first[i], second[i]);
    store(compute[i], static_cast<float>(weight[i]));
  }
}

}  // namespace

template <class M>
void adamw_update(const AdamWFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, M* first, M* second, Bf16* compute) {
  if (compute) {
    update_range_rounding<M>(factors, count, gradient, weight, first, second, compute);
  } else {
    update_range<M>(factors, count, gradient, weight, first, second);
  }
}

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

template void adamw_update<float>(const AdamWFactors<float>&, std::int64_t, const float*, float*, float*, float*, Bf16*);
template void adamw_update<double>(const AdamWFactors<double>&, std::int64_t, const double*, double*, double*, double*, Bf16*);
template double sum_of_squares<float>(const float*, std::int64_t);
template double sum_of_squares<double>(const double*, std::int64_t);

}  // namespace lockstep
