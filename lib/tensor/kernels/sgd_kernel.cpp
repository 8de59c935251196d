#include "tensor/kernels/sgd_kernel.hpp"

namespace lockstep {

namespace {

template <class M>
LOCKSTEP_CLONES void step_plainly(const SgdFactors<M>& factors, std::int64_t count, const M* __restrict gradient,
                                  M* __restrict weight) {
  const SgdFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) weight[i] -= f.lr * (gradient[i] * f.gradient_scale + f.decay * weight[i]);
}

template <class M>
LOCKSTEP_CLONES void step_with_momentum(const SgdFactors<M>& factors, std::int64_t count, const M* __restrict gradient,
                                        M* __restrict weight, M* __restrict buffer) {
  const SgdFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const M g = gradient[i] * f.gradient_scale + f.decay * weight[i];
    const M kept = f.momentum * buffer[i] + g;
    buffer[i] = kept;
    weight[i] -= f.lr * (f.nesterov ? g + f.momentum * kept : kept);
  }
}

template <class M>
LOCKSTEP_CLONES void round_to(std::int64_t count, const M* __restrict weight, Bf16* __restrict compute) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(compute[i], static_cast<float>(weight[i]));
}

}  // namespace

template <class M>
void sgd_update(const SgdFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, M* buffer,
                Bf16* compute) {
  if (buffer) {
    step_with_momentum<M>(factors, count, gradient, weight, buffer);
  } else {
    step_plainly<M>(factors, count, gradient, weight);
  }
  if (compute) round_to<M>(count, weight, compute);
}

template <class M>
void sgd(const std::vector<Stretch<SgdFactors<M>>>& stretches, std::int64_t length, const UpdatedWeights<M>& weights,
         const M* gradient, M* buffer) {
  for_each_part(stretches, length, weights,
                [=](std::int64_t begin, std::int64_t end, const SgdFactors<M>& factors, M* weight, Bf16* compute) {
                  sgd_update<M>(factors, end - begin, gradient + begin, weight, buffer ? buffer + begin : nullptr,
                                compute);
                });
}

#define LOCKSTEP_INSTANTIATE(M)                                                                                      \
  template void sgd_update<M>(const SgdFactors<M>&, std::int64_t, const M*, M*, M*, Bf16*);                          \
  template void sgd<M>(const std::vector<Stretch<SgdFactors<M>>>&, std::int64_t, const UpdatedWeights<M>&, const M*, \
                       M*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
