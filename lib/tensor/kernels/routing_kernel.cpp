#include "tensor/kernels/routing_kernel.hpp"

#include "tensor/kernels/row_grain.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

namespace {

constexpr std::int64_t values_per_thread = 16384;

/// Calls body(token) for all tokens, each of `values` values, on all threads.
template <class Body>
void for_each_token(std::int64_t tokens, std::int64_t values, const Body& body) {
  parallel_for(tokens, row_grain(values, values_per_thread), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) body(token);
  });
}

template <class M>
void softmax(const M* logits, std::int64_t count, M* probabilities) {
  const M largest = *std::max_element(logits, logits + count);
  M sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += probabilities[i] = std::exp(logits[i] - largest);
  for (std::int64_t i = 0; i < count; ++i) probabilities[i] /= sum;
}

/// The indices of the largest values, of equal ones the first, ascending. A value that is not a number is never larger.
template <class M>
void choose_largest(const M* values, std::int64_t count, std::int64_t wanted, std::int32_t* chosen) {
  std::int64_t found = 0;  // chosen so far, in falling order of their values
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = found;
    while (place > 0 && values[i] > values[chosen[place - 1]]) --place;
    if (place == wanted) continue;
    found = std::min(found + 1, wanted);
    std::copy_backward(chosen + place, chosen + found - 1, chosen + found);
    chosen[place] = static_cast<std::int32_t>(i);
  }
  std::sort(chosen, chosen + wanted);
}

template <class T>
LOCKSTEP_CLONES void add_scaled(const T* x, Math<T> scale, std::int64_t count, Math<T>* sum) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) sum[i] += scale * load(x[i]);
}

/// y = scale · dy, rounded; gives dy·x.
template <class T>
LOCKSTEP_CLONES Math<T> scale_and_multiply(const Math<T>* dy, const T* x, Math<T> scale, std::int64_t count, T* y) {
  Math<T> product = 0;
#pragma omp simd reduction(+ : product)
  for (std::int64_t i = 0; i < count; ++i) {
    product += dy[i] * load(x[i]);
    store(y[i], scale * dy[i]);
  }
  return product;
}

/// y = the sum of `count` rows at `places`, channels [begin, end).
template <class T>
LOCKSTEP_CLONES void sum_rows(const T* rows, const std::int32_t* places, std::int64_t count, std::int64_t channels,
                              T* y) {
  for (std::int64_t c = 0; c < channels; ++c) {
    Math<T> sum = 0;
    for (std::int64_t j = 0; j < count; ++j) sum += load(rows[places[j] * channels + c]);
    store(y[c], sum);
  }
}

}  // namespace

template <class M>
void route(const M* logits, const RoutingShape& shape, Choose choose, std::int32_t* chosen, M* weights,
           M* probabilities) {
  const std::int64_t E = shape.experts, k = shape.per_token;
  for_each_token(shape.tokens, 8 * E, [=](std::int64_t token) {
    M* const all = probabilities + token * E;
    std::int32_t* const own = chosen + token * k;
    softmax(logits + token * E, E, all);
    if (choose == Choose::largest) choose_largest(logits + token * E, E, k, own);
    M sum = 0;
    for (std::int64_t j = 0; j < k; ++j) sum += all[own[j]];
    for (std::int64_t j = 0; j < k; ++j) weights[token * k + j] = shape.normalised ? all[own[j]] / sum : all[own[j]];
  });
}

template <class T>
void route_backward(const Math<T>* dweights, const Math<T>* weights, const Math<T>* probabilities,
                    const std::int32_t* chosen, const AuxSlopes<Math<T>>& aux, const RoutingShape& shape, T* dlogits) {
  using M = Math<T>;
  const std::int64_t E = shape.experts, k = shape.per_token;
  for_each_token(shape.tokens, 4 * E, [=](std::int64_t token) {
    const M* const all = probabilities + token * E;
    const M* const own = weights + token * k;
    const M* const down = dweights + token * k;
    const std::int32_t* const experts = chosen + token * k;
    M product = 0, sum = 0;  // Σ dw·w, and of the chosen ones' probabilities
    for (std::int64_t j = 0; j < k; ++j) {
      product += down[j] * own[j];
      sum += all[experts[j]];
    }
    // Of what is normalised only ratios of the chosen ones count: what all share falls out.
    const M shared = shape.normalised ? 0 : product;
    const bool counts = aux.samples != nullptr && aux.samples[token] >= 0;
    const M* const slopes = counts ? aux.slopes + aux.samples[token] * E : nullptr;
    M mean = 0;  // Σ p·slope
    for (std::int64_t e = 0; counts && e < E; ++e) mean += all[e] * slopes[e];
    const auto balance = [&](std::int64_t e) { return counts ? all[e] * (slopes[e] - mean) : M{0}; };
    for (std::int64_t e = 0; e < E; ++e) store(dlogits[token * E + e], balance(e) - all[e] * shared);
    for (std::int64_t j = 0; j < k; ++j) {
      const M p = all[experts[j]];
      const M slope = shape.normalised ? p * (down[j] - product) / sum : p * (down[j] - shared);
      store(dlogits[token * E + experts[j]], balance(experts[j]) + slope);
    }
  });
}

void count_choices(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape, double* counts) {
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    if (samples[token] < 0) continue;
    for (std::int64_t j = 0; j < shape.per_token; ++j) ++counts[chosen[token * shape.per_token + j]];
  }
}

template <class M>
void sum_by_sample(const M* probabilities, const std::int32_t* chosen, const std::int32_t* samples,
                   const RoutingShape& shape, std::int64_t count, M* sums) {
  const std::int64_t E = shape.experts, k = shape.per_token;
  std::fill_n(sums, 2 * count * E, M{0});
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    if (samples[token] < 0) continue;
    M* const choices = sums + samples[token] * E;
    M* const all = choices + count * E;
    for (std::int64_t j = 0; j < k; ++j) ++choices[chosen[token * k + j]];
    for (std::int64_t e = 0; e < E; ++e) all[e] += probabilities[token * E + e];
  }
}

template <class M>
void aux_loss(const M* sums, std::int64_t samples, std::int64_t experts, std::int64_t tokens, double scale, M* slopes,
              double* loss) {
  const double factor = static_cast<double>(experts) / (static_cast<double>(tokens) * static_cast<double>(tokens));
  double products = 0;
  for (std::int64_t i = 0; i < samples * experts; ++i) {
    const double choices = static_cast<double>(sums[i]);
    products += choices * static_cast<double>(sums[samples * experts + i]);
    slopes[i] = static_cast<M>(scale * factor * choices);
  }
  *loss = factor * products;
}

void group_by_expert(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape,
                     std::int64_t* offsets, std::int32_t* places) {
  const std::int64_t count = shape.tokens * shape.per_token;
  const auto is_padding = [&](std::int64_t i) { return samples != nullptr && samples[i / shape.per_token] < 0; };
  std::fill_n(offsets, shape.experts + 1, std::int64_t{0});
  for (std::int64_t i = 0; i < count; ++i)
    if (!is_padding(i)) ++offsets[chosen[i] + 1];
  for (std::int64_t e = 0; e < shape.experts; ++e) offsets[e + 1] += offsets[e];
  for (std::int64_t i = 0; i < count; ++i)
    places[i] = is_padding(i) ? -1 : static_cast<std::int32_t>(offsets[chosen[i]]++);
  for (std::int64_t e = shape.experts; e > 0; --e) offsets[e] = offsets[e - 1];
  offsets[0] = 0;
}

template <class T>
void dispatch_rows(const T* x, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels, T* rows) {
  const std::int64_t k = shape.per_token;
  for_each_token(shape.tokens, k * channels, [=](std::int64_t token) {
    for (std::int64_t j = token * k; j < (token + 1) * k; ++j)
      if (places[j] >= 0) std::copy_n(x + token * channels, channels, rows + places[j] * channels);
  });
}

template <class T>
void dispatch_backward(const T* drows, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels,
                       T* dx) {
  const std::int64_t k = shape.per_token;
  for_each_token(shape.tokens, k * channels, [=](std::int64_t token) {
    const bool has_rows = places[token * k] >= 0;
    sum_rows<T>(drows, places + token * k, has_rows ? k : 0, channels, dx + token * channels);
  });
}

template <class T>
void combine_rows(const Math<T>* residual, const T* rows, const Math<T>* weights, const std::int32_t* places,
                  const RoutingShape& shape, std::int64_t channels, Math<T>* y) {
  const std::int64_t k = shape.per_token;
  for_each_token(shape.tokens, k * channels, [=](std::int64_t token) {
    Math<T>* const out = y + token * channels;
    std::fill_n(out, channels, Math<T>{0});
    for (std::int64_t j = token * k; j < (token + 1) * k; ++j)
      if (places[j] >= 0) add_scaled<T>(rows + places[j] * channels, weights[j], channels, out);
    if (residual != nullptr) add_scaled<Math<T>>(residual + token * channels, 1, channels, out);
  });
}

template <class T>
void combine_backward(const Math<T>* dy, const T* rows, const Math<T>* weights, const std::int32_t* places,
                      const RoutingShape& shape, std::int64_t channels, T* drows, Math<T>* dweights) {
  const std::int64_t k = shape.per_token;
  for_each_token(shape.tokens, k * channels, [=](std::int64_t token) {
    for (std::int64_t j = token * k; j < (token + 1) * k; ++j) {
      dweights[j] = 0;
      if (places[j] < 0) continue;
      const std::int64_t row = places[j] * channels;
      dweights[j] = scale_and_multiply<T>(dy + token * channels, rows + row, weights[j], channels, drows + row);
    }
  });
}

#define LOCKSTEP_INSTANTIATE(T)                                                                                     \
  template void route_backward<T>(const Math<T>*, const Math<T>*, const Math<T>*, const std::int32_t*,              \
                                  const AuxSlopes<Math<T>>&, const RoutingShape&, T*);                              \
  template void dispatch_rows<T>(const T*, const std::int32_t*, const RoutingShape&, std::int64_t, T*);             \
  template void dispatch_backward<T>(const T*, const std::int32_t*, const RoutingShape&, std::int64_t, T*);         \
  template void combine_rows<T>(const Math<T>*, const T*, const Math<T>*, const std::int32_t*, const RoutingShape&, \
                                std::int64_t, Math<T>*);                                                            \
  template void combine_backward<T>(const Math<T>*, const T*, const Math<T>*, const std::int32_t*,                  \
                                    const RoutingShape&, std::int64_t, T*, Math<T>*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(Bf16)
LOCKSTEP_INSTANTIATE(Fp16)
#undef LOCKSTEP_INSTANTIATE
template void route<float>(const float*, const RoutingShape&, Choose, std::int32_t*, float*, float*);
template void route<double>(const double*, const RoutingShape&, Choose, std::int32_t*, double*, double*);
template void sum_by_sample<float>(const float*, const std::int32_t*, const std::int32_t*, const RoutingShape&,
                                   std::int64_t, float*);
template void sum_by_sample<double>(const double*, const std::int32_t*, const std::int32_t*, const RoutingShape&,
                                    std::int64_t, double*);
template void aux_loss<float>(const float*, std::int64_t, std::int64_t, std::int64_t, double, float*, double*);
template void aux_loss<double>(const double*, std::int64_t, std::int64_t, std::int64_t, double, double*, double*);

}  // namespace lockstep
