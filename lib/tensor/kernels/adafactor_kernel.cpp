#include "tensor/kernels/adafactor_kernel.hpp"

#include <array>

namespace lockstep {

namespace {

constexpr std::int64_t lanes = 16;

template <class M, class ValueAt>
LOCKSTEP_INLINE double sum_of(std::int64_t count, const ValueAt& value_at) {
  std::array<double, lanes> sums{};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<double>(value_at(i + lane));
      sums[static_cast<std::size_t>(lane)] += value * value;
    }
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane) {
    const auto value = static_cast<double>(value_at(i));
    sums[static_cast<std::size_t>(lane)] += value * value;
  }
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

template <class M>
LOCKSTEP_CLONES double squares(std::int64_t count, const M* __restrict x, M scale) {
  return sum_of<M>(count, [=](std::int64_t i) { return x[i] * scale; });
}

template <class M>
LOCKSTEP_CLONES double squares_along(std::int64_t count, const M* __restrict x, M scale, const M* __restrict factors) {
  return sum_of<M>(count, [=](std::int64_t i) { return x[i] * scale * factors[i]; });
}

template <class M>
LOCKSTEP_CLONES void add(std::int64_t count, const M* __restrict x, M scale, double* __restrict sums) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(x[i] * scale);
    sums[i] += value * value;
  }
}

template <class M>
LOCKSTEP_CLONES void follow(const AdafactorFactors<M>& row, std::int64_t count, const M* __restrict gradient,
                            const M* __restrict factors, M* __restrict weight) {
  const AdafactorFactors<M> f = row;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const M step = gradient[i] * f.scale * factors[i];
    weight[i] = weight[i] * f.keep - f.rate * step;
  }
}

template <class M>
LOCKSTEP_CLONES void follow_average(const AdafactorFactors<M>& row, std::int64_t count, const M* __restrict gradient,
                                    const M* __restrict factors, M* __restrict weight, M* __restrict average) {
  const AdafactorFactors<M> f = row;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const M step = gradient[i] * f.scale * factors[i];
    const M along = average[i] * f.momentum + step * (1 - f.momentum);
    average[i] = along;
    weight[i] = weight[i] * f.keep - f.rate * along;
  }
}

template <class M>
LOCKSTEP_CLONES void round_to(std::int64_t count, const M* __restrict weight, Bf16* __restrict compute) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(compute[i], static_cast<float>(weight[i]));
}

}  // namespace

template <class M>
double sum_squares(std::int64_t count, const M* x, M scale) {
  return squares<M>(count, x, scale);
}

template <class M>
double sum_squares(std::int64_t count, const M* x, M scale, const M* factors) {
  return squares_along<M>(count, x, scale, factors);
}

template <class M>
void add_squares(std::int64_t count, const M* x, M scale, double* sums) {
  add<M>(count, x, scale, sums);
}

template <class M>
void adafactor_update(const AdafactorFactors<M>& row, std::int64_t count, const M* gradient, const M* factors,
                      M* weight, M* average, Bf16* compute) {
  if (average) {
    follow_average<M>(row, count, gradient, factors, weight, average);
  } else {
    follow<M>(row, count, gradient, factors, weight);
  }
  if (compute) round_to<M>(count, weight, compute);
}

template double sum_squares<float>(std::int64_t, const float*, float);
template double sum_squares<double>(std::int64_t, const double*, double);
template double sum_squares<float>(std::int64_t, const float*, float, const float*);
template double sum_squares<double>(std::int64_t, const double*, double, const double*);
template void add_squares<float>(std::int64_t, const float*, float, double*);
template void add_squares<double>(std::int64_t, const double*, double, double*);
template void adafactor_update<float>(const AdafactorFactors<float>&, std::int64_t, const float*, const float*, float*,
                                      float*, Bf16*);
template void adafactor_update<double>(const AdafactorFactors<double>&, std::int64_t, const double*, const double*,
                                       double*, double*, Bf16*);

}  // namespace lockstep
