#include "tensor/kernels/adamw_kernel.hpp"

#include "tensor/kernels/wide.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace lockstep {

namespace {

template <class M, class S>
LOCKSTEP_INLINE void update(const AdamWFactors<M>& f, M gradient, M& weight, S& first, S& second) {
  const M g = gradient * f.gradient_scale, before = load(first);
  const M m = before + (1 - f.beta1) * (g - before);
  const M v = f.beta2 * load(second) + (1 - f.beta2) * g * g;
  store(first, m);
  store(second, v);
  weight = weight * f.keep - f.step_size * m / (std::sqrt(v) / f.correction + f.epsilon);
}

template <class M, class S>
LOCKSTEP_CLONES void update_range(const AdamWFactors<M>& factors, std::int64_t count, const M* __restrict gradient,
                                  M* __restrict weight, S* __restrict first, S* __restrict second) {
  const AdamWFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) update(f, gradient[i], weight[i], first[i], second[i]);
}

template <class M, class S>
LOCKSTEP_CLONES void update_range_rounding(const AdamWFactors<M>& factors, std::int64_t count,
                                           const M* __restrict gradient, M* __restrict weight, S* __restrict first,
                                           S* __restrict second, Bf16* __restrict compute) {
  const AdamWFactors<M> f = factors;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    update(f, gradient[i], weight[i], first[i], second[i]);
    store(compute[i], static_cast<float>(weight[i]));
  }
}

#ifdef LOCKSTEP_INTRINSICS
LOCKSTEP_WIDE LOCKSTEP_INLINE void prefetch(const float* values) {
  _mm_prefetch(reinterpret_cast<const char*>(values), _MM_HINT_T0);
}

/// The update is bound by memory. What is read is asked for early, the copy, which only the next step reads, bypasses
/// the cache, and the quotient is a product with a reciprocal refined by Newton's step, which is off by 2 units in the
/// last place at most.
LOCKSTEP_WIDE void update_wide(const AdamWFactors<float>& f, std::int64_t count, const float* gradient, float* weight,
                               float* first, float* second, Bf16* compute) {
  constexpr std::int64_t ahead = 512;  // elements
  const __m512 scale = _mm512_set1_ps(f.gradient_scale), keep = _mm512_set1_ps(f.keep),
               step = _mm512_set1_ps(f.step_size);
  const __m512 beta2 = _mm512_set1_ps(f.beta2), rest1 = _mm512_set1_ps(1 - f.beta1),
               rest2 = _mm512_set1_ps(1 - f.beta2);
  const __m512 correction = _mm512_set1_ps(1 / f.correction), epsilon = _mm512_set1_ps(f.epsilon),
               two = _mm512_set1_ps(2);
  for (std::int64_t i = 0; i < count; i += 16) {
    // The end is masked, so that an element has the same bits wherever a thread's share begins and ends.
    const __mmask16 mask = lanes_of(count - i);
    prefetch(gradient + i + ahead);
    prefetch(weight + i + ahead);
    prefetch(first + i + ahead);
    prefetch(second + i + ahead);
    const __m512 g = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, gradient + i), scale),
                 before = _mm512_maskz_loadu_ps(mask, first + i);
    const __m512 m = _mm512_fmadd_ps(rest1, _mm512_sub_ps(g, before), before);
    const __m512 v =
        _mm512_fmadd_ps(beta2, _mm512_maskz_loadu_ps(mask, second + i), _mm512_mul_ps(rest2, _mm512_mul_ps(g, g)));
    _mm512_mask_storeu_ps(first + i, mask, m);
    _mm512_mask_storeu_ps(second + i, mask, v);
    const __m512 divisor = _mm512_fmadd_ps(_mm512_sqrt_ps(v), correction, epsilon), guess = _mm512_rcp14_ps(divisor);
    const __m512 reciprocal = _mm512_mul_ps(guess, _mm512_fnmadd_ps(divisor, guess, two));
    const __m512 w = _mm512_fnmadd_ps(_mm512_mul_ps(step, m), reciprocal,
                                      _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, weight + i), keep));
    _mm512_mask_storeu_ps(weight + i, mask, w);
    if (compute == nullptr) continue;
    Bf16* const copy = compute + i;
    if (mask == 0xffff && reinterpret_cast<std::uintptr_t>(copy) % sizeof(__m256i) == 0) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(copy), rounded(w));
    } else {
      for (std::int64_t e = i; e < std::min(count, i + 16); ++e) store(compute[e], weight[e]);
    }
  }
  _mm_sfence();
}

#else

void update_wide(const AdamWFactors<float>&, std::int64_t, const float*, float*, float*, float*, Bf16*) {}

#endif

}  // namespace

template <class M, class S>
void adamw_update(const AdamWFactors<M>& factors, std::int64_t count, const M* gradient, M* weight, S* first, S* second,
                  Bf16* compute) {
  if constexpr (std::is_same_v<S, float>) {
    if (is_wide()) return update_wide(factors, count, gradient, weight, first, second, compute);
  }
  if (compute) {
    update_range_rounding<M, S>(factors, count, gradient, weight, first, second, compute);
  } else {
    update_range<M, S>(factors, count, gradient, weight, first, second);
  }
}

template <class M, class S>
void adamw(const std::vector<Stretch<AdamWFactors<M>>>& stretches, std::int64_t length,
           const UpdatedWeights<M>& weights, const M* gradient, S* first, S* second) {
  for_each_part(stretches, length, weights,
                [=](std::int64_t begin, std::int64_t end, const AdamWFactors<M>& factors, M* weight, Bf16* compute) {
                  adamw_update<M, S>(factors, end - begin, gradient + begin, weight, first + begin, second + begin,
                                     compute);
                });
}

#define LOCKSTEP_INSTANTIATE(M, S)                                                                                \
  template void adamw_update<M, S>(const AdamWFactors<M>&, std::int64_t, const M*, M*, S*, S*, Bf16*);            \
  template void adamw<M, S>(const std::vector<Stretch<AdamWFactors<M>>>&, std::int64_t, const UpdatedWeights<M>&, \
                            const M*, S*, S*);
LOCKSTEP_INSTANTIATE(float, float)
LOCKSTEP_INSTANTIATE(float, Bf16)
LOCKSTEP_INSTANTIATE(double, double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep
