#include "tensor/kernels/lion_kernel.hpp"

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

template <class M, class S>
void lion(const std::vector<Stretch<LionFactors<M>>>& stretches, std::int64_t length, const UpdatedWeights<M>& weights,
          const M* gradient, S* average) {
  for_each_part(stretches, length, weights,
                [=](std::int64_t begin, std::int64_t end, const LionFactors<M>& factors, M* weight, Bf16* compute) {
                  lion_update<M, S>(factors, end - begin, gradient + begin, weight, average + begin, compute);
                });
}

#define LOCKSTEP_INSTANTIATE(M, S)                                                                              \
  template void lion_update<M, S>(const LionFactors<M>&, std::int64_t, const M*, M*, S*, Bf16*);                \
  template void lion<M, S>(const std::vector<Stretch<LionFactors<M>>>&, std::int64_t, const UpdatedWeights<M>&, \
                           const M*, S*);
LOCKSTEP_INSTANTIATE(float, float)
LOCKSTEP_INSTANTIATE(float, Bf16)
LOCKSTEP_INSTANTIATE(double, double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
