#include "optim/lion_kernel.hpp"

namespace lockstep {

namespace {

template <class M, class S>
LOCKSTEP_CLONES void update(const LionFactors<M>& factors, std::int64_t count, const M* __restrict gradient,
                            M* __restrict weight, S* __restrict average) {
  const LionFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const M g = gradient[i] * f.gradient_scale, m = load(average[i]);
    const M direction = f.beta1 * m + (1 - f.beta1) * g;
    const M sign = direction > 0 ? M(1) : direction < 0 ? M(-1) : direction;  // a NaN goes on
    weight[i] = weight[i] * f.keep - f.lr * sign;
    store(average[i], f.beta2 * m + (1 - f.beta2) * g);
  }
}

template <class M>
LOCKSTEP_CLONES void round_to(std::int64_t count, const M* __restrict weight, Bf16* __restrict compute) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(compute[i], static_cast<float>(weight[i]));
}

}  // namespace

template <class M, class S>
void lion_update(const LionFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, S* average,
                 Bf16* compute) {
  update<M, S>(factors, count, gradient, weight, average);
  if (compute) round_to<M>(count, weight, compute);
}

template void lion_update<float, float>(const LionFactors<float>&, std::int64_t, const float*, float*, float*, Bf16*);
template void lion_update<float, Bf16>(const LionFactors<float>&, std::int64_t, const float*, float*, Bf16*, Bf16*);
template void lion_update<double, double>(const LionFactors<double>&, std::int64_t, const double*, double*, double*,
                                          Bf16*);

}  // namespace lockstep
