#include "tensor/kernels/short_weights_kernel.hpp"

namespace lockstep {

namespace {

LOCKSTEP_CLONES void widen(std::int64_t count, const Bf16* __restrict weight, float* __restrict wide) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) wide[i] = load(weight[i]);
}

LOCKSTEP_CLONES void widen_with(std::int64_t count, const Bf16* __restrict weight, const Bf16* __restrict rest,
                                float* __restrict wide) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) wide[i] = load(weight[i]) + load(rest[i]);
}

LOCKSTEP_CLONES void narrow(std::int64_t count, const float* __restrict wide, Bf16* __restrict weight) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) store(weight[i], wide[i]);
}

LOCKSTEP_CLONES void narrow_with(std::int64_t count, const float* __restrict wide, Bf16* __restrict weight,
                                 Bf16* __restrict rest) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    store(weight[i], wide[i]);
    store(rest[i], wide[i] - load(weight[i]));
  }
}

}  // namespace

void widen_weights(std::int64_t count, const Bf16* weight, const Bf16* rest, float* wide) {
  rest == nullptr ? widen(count, weight, wide) : widen_with(count, weight, rest, wide);
}

void round_weights(std::int64_t count, const float* wide, Bf16* weight, Bf16* rest) {
  rest == nullptr ? narrow(count, wide, weight) : narrow_with(count, wide, weight, rest);
}

}  // namespace lockstep
