#include "cuda/kernels/updates.hpp"

#include "cuda/kernels/changed_weights.cuh"
#include "cuda/kernels/over_rows.cuh"

namespace lockstep::cuda {

namespace {

// Each rule changes V weights w and the state beside them.
template <class M, class S>
struct AdamWRule {
  using Number = M;
  using Factors = AdamWFactors<M>;
  const M* gradient;
  S *first, *second;

  template <int V>
  __device__ void operator()(const Factors& f, const Elements& at, M (&w)[V]) const {
    M g[V], m[V], v[V];
    at.load(gradient, g);
    at.load(first, m);
    at.load(second, v);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      g[i] *= f.gradient_scale;
      m[i] += (1 - f.beta1) * (g[i] - m[i]);
      v[i] = f.beta2 * v[i] + (1 - f.beta2) * g[i] * g[i];
      w[i] = w[i] * f.keep - f.step_size * m[i] / (sqrt(v[i]) / f.correction + f.epsilon);
    }
    at.store(m, first);
    at.store(v, second);
  }
};

template <class M, class S>
struct LionRule {
  using Number = M;
  using Factors = LionFactors<M>;
  const M* gradient;
  S* average;

  template <int V>
  __device__ void operator()(const Factors& f, const Elements& at, M (&w)[V]) const {
    M g[V], m[V];
    at.load(gradient, g);
    at.load(average, m);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      g[i] *= f.gradient_scale;
      const M direction = f.beta1 * m[i] + (1 - f.beta1) * g[i];
      const M sign = direction > 0 ? M{1} : direction < 0 ? M{-1} : direction;  // a NaN goes on
      w[i] = w[i] * f.keep - f.lr * sign;
      m[i] = f.beta2 * m[i] + (1 - f.beta2) * g[i];
    }
    at.store(m, average);
  }
};

template <class M>
struct SgdRule {
  using Number = M;
  using Factors = SgdFactors<M>;
  const M* gradient;
  M* buffer;

  template <int V>
  __device__ void operator()(const Factors& f, const Elements& at, M (&w)[V]) const {
    M g[V], kept[V] = {};
    at.load(gradient, g);
    if (buffer) at.load(buffer, kept);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      g[i] = g[i] * f.gradient_scale + f.decay * w[i];
      kept[i] = f.momentum * kept[i] + g[i];
      w[i] -= f.lr * (buffer == nullptr ? g[i] : f.nesterov ? g[i] + f.momentum * kept[i] : kept[i]);
    }
    if (buffer) at.store(kept, buffer);
  }
};

constexpr int update_threads = 256;

/// The stretches of one launch. Their number is limited by the size of a kernel's arguments, 4 KiB.
template <class Factors>
struct Stretches {
  static constexpr int most = 3072 / static_cast<int>(sizeof(Stretch<Factors>));
  Stretch<Factors> of[most];
  unsigned first_blocks[most + 1];
};

template <class Rule>
__global__ void __launch_bounds__(update_threads)
    update_weights(const Stretches<typename Rule::Factors> stretches, UpdatedWeights<typename Rule::Number> weights,
                   Rule rule, bool packed) {
  constexpr int lanes = lanes_of_access<typename Rule::Number>;
  int s = 0;
  while (blockIdx.x >= stretches.first_blocks[s + 1]) ++s;
  const std::int64_t first = stretches.of[s].begin, last = stretches.of[s].end;
  const std::int64_t block = blockIdx.x - stretches.first_blocks[s];
  // A stretch may begin and end within a pack.
  const std::int64_t pack = first / lanes * lanes + (block * update_threads + threadIdx.x) * lanes;
  const std::int64_t begin = std::max(pack, first), end = std::min(pack + lanes, last);
  if (begin >= end) return;
  const Elements at{begin, static_cast<int>(end - begin), packed};
  const typename Rule::Factors factors = stretches.of[s].factors;
  change_weights<lanes>(weights, at, [&](auto& w) { rule(factors, at, w); });
}

template <class Rule, class Factors>
void update(const std::vector<Stretch<Factors>>& stretches, const UpdatedWeights<typename Rule::Number>& weights,
            const Rule& rule, std::initializer_list<const void*> buffers) {
  using Group = Stretches<Factors>;
  constexpr int lanes = lanes_of_access<typename Rule::Number>;
  const bool packed =
      packable(0, lanes, buffers) &&
      packable(0, lanes, {weights.master, weights.compute, weights.short_weights, weights.compensation});
  for (std::size_t next = 0; next < stretches.size();) {
    Group group{};
    unsigned blocks = 0;
    int count = 0;
    for (; next < stretches.size() && count < Group::most; ++next) {
      const Stretch<Factors>& stretch = stretches[next];
      if (stretch.begin >= stretch.end) continue;
      constexpr std::int64_t values_a_block = update_threads * lanes;
      const std::int64_t span = stretch.end - stretch.begin / lanes * lanes;
      group.of[count] = stretch;
      group.first_blocks[count++] = blocks;
      blocks += static_cast<unsigned>((span + values_a_block - 1) / values_a_block);
    }
    for (int s = count; s <= Group::most; ++s) group.first_blocks[s] = blocks;
    launch(update_weights<Rule>, blocks, update_threads, 0, group, weights, rule, packed);
  }
}

template <class M, class S>
struct MuonLead {
  static constexpr int lanes = lanes_of_access<M>;
  M scale, momentum;
  bool looks_ahead, packed;
  const M* gradient;
  S* average;
  M* directions;

  __device__ void operator()(std::int64_t, std::int64_t begin, int count) const {
    const Elements at{begin, count, packed};
    M g[lanes], kept[lanes];
    at.load(gradient, g);
#pragma unroll
    for (int i = 0; i < lanes; ++i) g[i] *= scale;
    if (average == nullptr) return at.store(g, directions);
    at.load(average, kept);
#pragma unroll
    for (int i = 0; i < lanes; ++i) {
      kept[i] += (1 - momentum) * (g[i] - kept[i]);
      g[i] = looks_ahead ? g[i] + momentum * (kept[i] - g[i]) : kept[i];
    }
    at.store(kept, average);
    at.store(g, directions);
  }
};

template <class M>
struct MuonFollow {
  static constexpr int lanes = lanes_of_access<M>;
  M keep, step;
  UpdatedWeights<M> weights;
  const M* directions;
  bool packed;

  __device__ void operator()(std::int64_t, std::int64_t begin, int count) const {
    const Elements at{begin, count, packed};
    M direction[lanes];
    at.load(directions, direction);
    change_weights<lanes>(weights, at, [&](auto& w) {
#pragma unroll
      for (int i = 0; i < lanes; ++i) w[i] = w[i] * keep - step * direction[i];
    });
  }
};

}  // namespace

template <class M, class S>
void adamw(const std::vector<Stretch<AdamWFactors<M>>>& stretches, std::int64_t /*length*/,
           const UpdatedWeights<M>& weights, const M* gradient, S* first, S* second) {
  update(stretches, weights, AdamWRule<M, S>{gradient, first, second}, {gradient, first, second});
}

template <class M, class S>
void lion(const std::vector<Stretch<LionFactors<M>>>& stretches, std::int64_t /*length*/,
          const UpdatedWeights<M>& weights, const M* gradient, S* average) {
  update(stretches, weights, LionRule<M, S>{gradient, average}, {gradient, average});
}

template <class M>
void sgd(const std::vector<Stretch<SgdFactors<M>>>& stretches, std::int64_t /*length*/,
         const UpdatedWeights<M>& weights, const M* gradient, M* buffer) {
  update(stretches, weights, SgdRule<M>{gradient, buffer}, {gradient, buffer});
}

template <class M, class S>
void muon_lead(std::int64_t count, M scale, M momentum, bool looks_ahead, const M* gradient, S* average,
               M* directions) {
  const bool packed = packable(0, lanes_of_access<M>, {gradient, average, directions});
  over_rows(1, count, MuonLead<M, S>{scale, momentum, looks_ahead, packed, gradient, average, directions});
}

template <class M>
void muon_follow(std::int64_t offset, std::int64_t count, M keep, M step, const UpdatedWeights<M>& weights,
                 const M* directions) {
  const auto from = [offset](auto* values) { return values == nullptr ? nullptr : values + offset; };
  const UpdatedWeights<M> own{from(weights.master), from(weights.compute), from(weights.short_weights),
                              from(weights.compensation)};
  const bool packed =
      packable(0, lanes_of_access<M>, {own.master, own.compute, own.short_weights, own.compensation, directions});
  over_rows(1, count, MuonFollow<M>{keep, step, own, directions, packed});
}

#define LOCKSTEP_INSTANTIATE(M, S)                                                                                \
  template void adamw<M, S>(const std::vector<Stretch<AdamWFactors<M>>>&, std::int64_t, const UpdatedWeights<M>&, \
                            const M*, S*, S*);                                                                    \
  template void lion<M, S>(const std::vector<Stretch<LionFactors<M>>>&, std::int64_t, const UpdatedWeights<M>&,   \
                           const M*, S*);                                                                         \
  template void muon_lead<M, S>(std::int64_t, M, M, bool, const M*, S*, M*);
LOCKSTEP_INSTANTIATE(float, float)
LOCKSTEP_INSTANTIATE(float, Bf16)
LOCKSTEP_INSTANTIATE(double, double)
#undef LOCKSTEP_INSTANTIATE
#define LOCKSTEP_INSTANTIATE(M)                                                                                      \
  template void sgd<M>(const std::vector<Stretch<SgdFactors<M>>>&, std::int64_t, const UpdatedWeights<M>&, const M*, \
                       M*);                                                                                          \
  template void muon_follow<M>(std::int64_t, std::int64_t, M, M, const UpdatedWeights<M>&, const M*);
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
#undef LOCKSTEP_INSTANTIATE

}  // namespace lockstep::cuda
