#include "tensor/kernels/muon_kernel.hpp"

#include "tensor/parallel.hpp"

namespace lockstep {

namespace {

constexpr std::int64_t elements_in_turn = 8192;  // of a thread

}  // namespace

template <class M, class S>
void muon_lead(std::int64_t count, M scale, M momentum, bool looks_ahead, const M* gradient, S* average,
               M* directions) {
  parallel_for(count, elements_in_turn, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const M g = gradient[i] * scale;
      if (average == nullptr) {
        directions[i] = g;
        continue;
      }
      const M before = load(average[i]), m = before + (1 - momentum) * (g - before);
      store(average[i], m);
      directions[i] = looks_ahead ? g + momentum * (m - g) : m;
    }
  });
}

template <class M>
void muon_follow(std::int64_t offset, std::int64_t count, M keep, M step, const UpdatedWeights<M>& weights,
                 const M* directions) {
  const WeightsInWork<M> in_work(weights);
  parallel_for(count, elements_in_turn, [=](std::int64_t first, std::int64_t last) {
    in_work(offset + first, offset + last, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
      const M* const along = directions + (begin - offset);
      for (std::int64_t i = 0; i < end - begin; ++i) {
        weight[i] = weight[i] * keep - step * along[i];
        if (compute) store(compute[i], static_cast<float>(weight[i]));
      }
    });
  });
}

#define LOCKSTEP_INSTANTIATE(M, S) template void muon_lead<M, S>(std::int64_t, M, M, bool, const M*, S*, M*);
LOCKSTEP_INSTANTIATE(float, float)
LOCKSTEP_INSTANTIATE(float, Bf16)
LOCKSTEP_INSTANTIATE(double, double)
#undef LOCKSTEP_INSTANTIATE
template void muon_follow<float>(std::int64_t, std::int64_t, float, float, const UpdatedWeights<float>&, const float*);
template void muon_follow<double>(std::int64_t, std::int64_t, double, double, const UpdatedWeights<double>&,
                                  const double*);

}  // namespace lockstep
