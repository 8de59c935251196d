#include "cuda/kernels/routing.hpp"

#include "cuda/kernels/numbers.cuh"
#include "cuda/kernels/over_rows.cuh"
#include "cuda/kernels/reductions.cuh"

namespace lockstep::cuda {

namespace {

// A warp has a token, or one of its rows: a lane has every 32nd expert, or pack of channels.
constexpr int routing_threads = 256, routing_warps = routing_threads / static_cast<int>(warp_size);
constexpr std::int64_t most_experts = 1024;  // a bit of a word for each of a lane's

__device__ inline int own_lane() { return static_cast<int>(threadIdx.x % warp_size); }
/// The number of this warp among those of the grid.
__device__ inline std::int64_t own_warp() {
  return std::int64_t{blockIdx.x} * routing_warps + static_cast<int>(threadIdx.x / warp_size);
}
std::int64_t blocks_of_warps(std::int64_t warps) { return (warps + routing_warps - 1) / routing_warps; }

/// The expert with the largest logit that is not yet chosen, on all lanes: of equal ones the first. A NaN counts as −∞.
template <class M>
__device__ int next_choice(const M* logits, int experts, std::uint32_t chosen) {
  M best = -std::numeric_limits<M>::infinity();
  int expert = experts;  // none
  for (int e = own_lane(), i = 0; e < experts; e += static_cast<int>(warp_size), ++i) {
    if ((chosen >> i & 1u) != 0 || (expert < experts && !(logits[e] > best))) continue;
    if (logits[e] > best) best = logits[e];
    expert = e;
  }
  for (int step = static_cast<int>(warp_size) / 2; step > 0; step /= 2) {
    const M other = __shfl_xor_sync(all_lanes, best, step);
    const int other_expert = __shfl_xor_sync(all_lanes, expert, step);
    if (other_expert < experts && (expert == experts || other > best || (other == best && other_expert < expert))) {
      best = other;
      expert = other_expert;
    }
  }
  return expert;
}

template <class M>
__global__ void __launch_bounds__(routing_threads) route_tokens(const M* logits, RoutingShape shape, Choose choose,
                                                                std::int32_t* chosen, M* weights, M* probabilities) {
  const std::int64_t token = own_warp();
  if (token >= shape.tokens) return;
  const int experts = static_cast<int>(shape.experts), per_token = static_cast<int>(shape.per_token);
  constexpr int lanes = static_cast<int>(warp_size);
  logits += token * experts;
  probabilities += token * experts;
  chosen += token * per_token;
  weights += token * per_token;
  M largest = -std::numeric_limits<M>::infinity(), sum = 0;
  for (int e = own_lane(); e < experts; e += lanes) largest = logits[e] > largest ? logits[e] : largest;
  largest = warp_max(largest);
  for (int e = own_lane(); e < experts; e += lanes) sum += exp(logits[e] - largest);
  sum = warp_sum(sum);
  std::uint32_t own = 0;  // bit i: the lane's i-th expert is chosen
  for (int k = 0; k < per_token; ++k) {
    const int expert = choose == Choose::largest ? next_choice(logits, experts, own) : chosen[k];
    if (expert % lanes == own_lane()) own |= 1u << (expert / lanes);
  }
  M of_chosen = 0;
  for (int e = own_lane(), i = 0; e < experts; e += lanes, ++i) {
    const M probability = exp(logits[e] - largest) / sum;
    probabilities[e] = probability;
    if ((own >> i & 1u) != 0) of_chosen += probability;
  }
  of_chosen = warp_sum(of_chosen);
  int before = 0;  // chosen experts with lower numbers
  for (int first = 0, i = 0; first < experts; first += lanes, ++i) {
    const bool is_chosen = (own >> i & 1u) != 0;
    const unsigned all = __ballot_sync(all_lanes, is_chosen);
    if (is_chosen) {
      const int expert = first + own_lane(), at = before + __popc(all & ((1u << own_lane()) - 1));
      const M probability = exp(logits[expert] - largest) / sum;
      if (choose == Choose::largest) chosen[at] = expert;
      weights[at] = shape.normalised ? probability / of_chosen : probability;
    }
    before += __popc(all);
  }
}

template <class T>
__global__ void __launch_bounds__(routing_threads, 1)
    route_tokens_backward(const Math<T>* dweights, const Math<T>* weights, const Math<T>* probabilities,
                          const std::int32_t* chosen, AuxSlopes<Math<T>> aux, RoutingShape shape, T* dlogits) {
  using M = Math<T>;
  const std::int64_t token = own_warp();
  if (token >= shape.tokens) return;
  const int experts = static_cast<int>(shape.experts), per_token = static_cast<int>(shape.per_token);
  constexpr int lanes = static_cast<int>(warp_size);
  const M* const all = probabilities + token * experts;
  const M* const down = dweights + token * per_token;
  const std::int32_t* const own = chosen + token * per_token;
  const bool balances = aux.samples != nullptr && aux.samples[token] >= 0;
  const M* const slopes = balances ? aux.slopes + std::int64_t{aux.samples[token]} * experts : nullptr;
  M product = 0, sum = 0, mean = 0;  // Σ dw·w, of the chosen ones' probabilities, and Σ p·slope
  for (int k = 0; k < per_token; ++k) {
    product += down[k] * weights[token * per_token + k];
    sum += all[own[k]];
  }
  if (balances) {
    for (int e = own_lane(); e < experts; e += lanes) mean += all[e] * slopes[e];
    mean = warp_sum(mean);
  }
  // Normalised weights depend only on ratios of the chosen ones.
  const M shared = shape.normalised ? M{0} : product;
  for (int e = own_lane(); e < experts; e += lanes) {
    const M p = all[e];
    M slope = -p * shared;
    for (int k = 0; k < per_token; ++k) {
      if (own[k] == e) slope = shape.normalised ? p * (down[k] - product) / sum : p * (down[k] - shared);
    }
    narrow((balances ? p * (slopes[e] - mean) : M{0}) + slope, dlogits[token * experts + e]);
  }
}

/// The choices of an expert that are no padding, by all threads of a block.
__device__ inline int choices_of(int expert, const std::int32_t* chosen, const std::int32_t* samples,
                                 const RoutingShape& shape) {
  int own[1] = {};
  for (std::int64_t i = threadIdx.x; i < shape.tokens * shape.per_token; i += blockDim.x)
    own[0] += chosen[i] == expert && (samples == nullptr || samples[i / shape.per_token] >= 0) ? 1 : 0;
  block_sums(own);
  return own[0];
}

/// A block has an expert.
__global__ void __launch_bounds__(routing_threads)
    add_choices(const std::int32_t* chosen, const std::int32_t* samples, RoutingShape shape, double* counts) {
  const int expert = static_cast<int>(blockIdx.x), choices = choices_of(expert, chosen, samples, shape);
  if (threadIdx.x == 0) counts[expert] += choices;
}

/// offsets[expert + 1] = its choices; a block has an expert.
__global__ void __launch_bounds__(routing_threads)
    count_rows(const std::int32_t* chosen, const std::int32_t* samples, RoutingShape shape, std::int64_t* offsets) {
  const int expert = static_cast<int>(blockIdx.x), choices = choices_of(expert, chosen, samples, shape);
  if (threadIdx.x == 0) offsets[expert + 1] = choices;
}
__global__ void __launch_bounds__(32) add_up_offsets(std::int64_t experts, std::int64_t* offsets) {
  if (threadIdx.x != 0) return;
  offsets[0] = 0;
  for (std::int64_t e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
}

/// The rows of an expert, in the order of their tokens; a block has an expert.
__global__ void __launch_bounds__(routing_threads)
    place_rows(const std::int32_t* chosen, const std::int32_t* samples, RoutingShape shape, const std::int64_t* offsets,
               std::int32_t* places) {
  const int expert = static_cast<int>(blockIdx.x);
  const std::int64_t count = shape.tokens * shape.per_token;
  std::int64_t next = offsets[expert];
  for (std::int64_t base = 0; base < count; base += routing_threads) {
    const std::int64_t i = base + threadIdx.x;
    const bool is_real = i < count && (samples == nullptr || samples[i / shape.per_token] >= 0);
    const bool is_own = is_real && chosen[i] == expert;
    int all = 0;
    const int before = sum_before(is_own ? 1 : 0, all);
    if (is_own) places[i] = static_cast<std::int32_t>(next + before);
    if (i < count && !is_real && expert == 0) places[i] = -1;
    next += all;
  }
}

/// A block has a sample and 32 experts: a lane has one, and a warp every 8th token.
template <class M>
__global__ void __launch_bounds__(routing_threads)
    sum_sample(const M* probabilities, const std::int32_t* chosen, const std::int32_t* samples, RoutingShape shape,
               std::int64_t count, M* sums) {
  LOCKSTEP_SHARED(M, of_warps, 2 * routing_threads);
  const std::int64_t sample = blockIdx.x % count;
  const int expert = static_cast<int>(blockIdx.x / count * warp_size) + own_lane();
  M choices = 0, all = 0;
  for (std::int64_t token = threadIdx.x / warp_size; token < shape.tokens; token += routing_warps) {
    if (samples[token] != sample || expert >= shape.experts) continue;
    for (std::int64_t k = 0; k < shape.per_token; ++k)
      choices += chosen[token * shape.per_token + k] == expert ? M{1} : M{0};
    all += probabilities[token * shape.experts + expert];
  }
  of_warps[threadIdx.x] = choices;
  of_warps[routing_threads + static_cast<int>(threadIdx.x)] = all;
  __syncthreads();
  if (threadIdx.x >= warp_size || expert >= shape.experts) return;
  choices = all = 0;
  for (int w = 0; w < routing_warps; ++w) {
    choices += of_warps[w * static_cast<int>(warp_size) + own_lane()];
    all += of_warps[routing_threads + w * static_cast<int>(warp_size) + own_lane()];
  }
  sums[sample * shape.experts + expert] = choices;
  sums[(count + sample) * shape.experts + expert] = all;
}

/// One block.
template <class M>
__global__ void __launch_bounds__(routing_threads)
    sum_aux_loss(const M* sums, std::int64_t values, double factor, double scale, M* slopes, double* loss) {
  double products = 0;
  for (std::int64_t i = threadIdx.x; i < values; i += routing_threads) {
    const auto choices = static_cast<double>(sums[i]);
    products += choices * static_cast<double>(sums[values + i]);
    slopes[i] = static_cast<M>(scale * factor * choices);
  }
  products = block_sum(products);
  if (threadIdx.x == 0) *loss = factor * products;
}

template <class T>
struct DispatchRow {
  static constexpr int lanes = lanes_of_access<T>;
  const T* x;
  const std::int32_t* places;
  std::int64_t per_token, channels;
  bool packed;
  T* rows;

  __device__ void operator()(std::int64_t token, std::int64_t column, int count) const {
    Math<T> values[lanes];
    load_values(x + token * channels + column, count, packed, values);
    for (std::int64_t i = token * per_token; i < (token + 1) * per_token; ++i)
      if (places[i] >= 0) store_values(values, count, packed, rows + places[i] * channels + column);
  }
};

/// y = residual + Σ weight · row over the places of a token; weights nullptr: 1.
template <class T, class Out>
struct GatherRows {
  static constexpr int lanes = lanes_of_access<Math<T>>;
  const Math<T>* residual;
  const T* rows;
  const Math<T>* weights;
  const std::int32_t* places;
  std::int64_t per_token, channels;
  bool packed;
  Out* y;

  __device__ void operator()(std::int64_t token, std::int64_t column, int count) const {
    Math<T> sums[lanes] = {}, more[lanes];
    for (std::int64_t i = token * per_token; i < (token + 1) * per_token; ++i) {
      if (places[i] < 0) continue;
      load_values(rows + places[i] * channels + column, count, packed, more);
      const Math<T> weight = weights ? weights[i] : Math<T>{1};
#pragma unroll
      for (int k = 0; k < lanes; ++k) sums[k] += weight * more[k];
    }
    if (residual) {
      load_values(residual + token * channels + column, count, packed, more);
#pragma unroll
      for (int k = 0; k < lanes; ++k) sums[k] += more[k];
    }
    store_values(sums, count, packed, y + token * channels + column);
  }
};

/// A warp has one place of a token.
template <class T>
__global__ void __launch_bounds__(routing_threads)
    combine_rows_backward(const Math<T>* dy, const T* rows, const Math<T>* weights, const std::int32_t* places,
                          RoutingShape shape, std::int64_t channels, bool packed, T* drows, Math<T>* dweights) {
  using M = Math<T>;
  constexpr int lanes = lanes_of_access<M>;
  const std::int64_t i = own_warp();
  if (i >= shape.tokens * shape.per_token) return;
  const std::int64_t place = places[i];
  M product = 0;
  for (std::int64_t column = own_lane() * lanes; place >= 0 && column < channels;
       column += static_cast<int>(warp_size) * lanes) {
    const int count = lanes_left<lanes>(channels - column);
    M g[lanes], x[lanes];
    load_values(dy + i / shape.per_token * channels + column, count, packed, g);
    load_values(rows + place * channels + column, count, packed, x);
#pragma unroll
    for (int k = 0; k < lanes; ++k) {
      product += g[k] * x[k];
      g[k] *= weights[i];
    }
    store_values(g, count, packed, drows + place * channels + column);
  }
  product = warp_sum(product);
  if (own_lane() == 0) dweights[i] = product;
}

void require_experts(const RoutingShape& shape) {
  if (shape.experts > most_experts) check_launch(invalid_launch);
}

}  // namespace

template <class M>
void route(const M* logits, const RoutingShape& shape, Choose choose, std::int32_t* chosen, M* weights,
           M* probabilities) {
  require_experts(shape);
  launch(route_tokens<M>, blocks_of_warps(shape.tokens), routing_threads, 0, logits, shape, choose, chosen, weights,
         probabilities);
}

template <class T>
void route_backward(const Math<T>* dweights, const Math<T>* weights, const Math<T>* probabilities,
                    const std::int32_t* chosen, const AuxSlopes<Math<T>>& aux, const RoutingShape& shape, T* dlogits) {
  launch(route_tokens_backward<T>, blocks_of_warps(shape.tokens), routing_threads, 0, dweights, weights, probabilities,
         chosen, aux, shape, dlogits);
}

void count_choices(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape, double* counts) {
  launch(add_choices, shape.experts, routing_threads, 0, chosen, samples, shape, counts);
}

template <class M>
void sum_by_sample(const M* probabilities, const std::int32_t* chosen, const std::int32_t* samples,
                   const RoutingShape& shape, std::int64_t count, M* sums) {
  const std::int64_t tiles = (shape.experts + warp_size - 1) / warp_size;
  launch(sum_sample<M>, count * tiles, routing_threads, 0, probabilities, chosen, samples, shape, count, sums);
}

template <class M>
void aux_loss(const M* sums, std::int64_t samples, std::int64_t experts, std::int64_t tokens, double scale, M* slopes,
              double* loss) {
  const double factor = static_cast<double>(experts) / (static_cast<double>(tokens) * static_cast<double>(tokens));
  launch(sum_aux_loss<M>, 1, routing_threads, 0, sums, samples * experts, factor, scale, slopes, loss);
}

void group_by_expert(const std::int32_t* chosen, const std::int32_t* samples, const RoutingShape& shape,
                     std::int64_t* offsets, std::int32_t* places) {
  launch(count_rows, shape.experts, routing_threads, 0, chosen, samples, shape, offsets);
  launch(add_up_offsets, 1, 32, 0, shape.experts, offsets);
  launch(place_rows, shape.experts, routing_threads, 0, chosen, samples, shape, offsets, places);
}

template <class T>
void dispatch_rows(const T* x, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels, T* rows) {
  const bool packed = packable(channels, DispatchRow<T>::lanes, {x, rows});
  over_rows(shape.tokens, channels, DispatchRow<T>{x, places, shape.per_token, channels, packed, rows});
}

template <class T>
void dispatch_backward(const T* drows, const std::int32_t* places, const RoutingShape& shape, std::int64_t channels,
                       T* dx) {
  const bool packed = packable(channels, GatherRows<T, T>::lanes, {drows, dx});
  over_rows(shape.tokens, channels,
            GatherRows<T, T>{nullptr, drows, nullptr, places, shape.per_token, channels, packed, dx});
}

template <class T>
void combine_rows(const Math<T>* residual, const T* rows, const Math<T>* weights, const std::int32_t* places,
                  const RoutingShape& shape, std::int64_t channels, Math<T>* y) {
  const bool packed = packable(channels, GatherRows<T, Math<T>>::lanes, {residual, rows, y});
  over_rows(shape.tokens, channels,
            GatherRows<T, Math<T>>{residual, rows, weights, places, shape.per_token, channels, packed, y});
}

template <class T>
void combine_backward(const Math<T>* dy, const T* rows, const Math<T>* weights, const std::int32_t* places,
                      const RoutingShape& shape, std::int64_t channels, T* drows, Math<T>* dweights) {
  const bool packed = packable(channels, lanes_of_access<Math<T>>, {dy, rows, drows});
  launch(combine_rows_backward<T>, blocks_of_warps(shape.tokens * shape.per_token), routing_threads, 0, dy, rows,
         weights, places, shape, channels, packed, drows, dweights);
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
#define LOCKSTEP_INSTANTIATE(M)                                                                           \
  template void route<M>(const M*, const RoutingShape&, Choose, std::int32_t*, M*, M*);                   \
  template void sum_by_sample<M>(const M*, const std::int32_t*, const std::int32_t*, const RoutingShape&, \
                                 std::int64_t, M*);                                                       \
  template void aux_loss<M>(const M*, std::int64_t, std::int64_t, std::int64_t, double, M*, double*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
