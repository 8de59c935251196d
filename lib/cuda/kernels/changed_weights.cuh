// The weights of a unit in kernels that update them, in the type in which they compute.
#pragma once

#include "cuda/kernels/numbers.cuh"
#include "tensor/kernels/update_kernel.hpp"

#include <type_traits>

namespace lockstep::cuda {

/// Some values of the buffers of a unit: `count` of them, from `begin` on.
struct Elements {
  std::int64_t begin = 0;
  int count = 0;
  bool packed = false;

  template <int V, class T>
  __device__ void load(const T* from, Math<T> (&values)[V]) const {
    load_values(from + begin, count, packed, values);
  }
  template <int V, class T>
  __device__ void store(const Math<T> (&values)[V], T* to) const {
    store_values(values, count, packed, to + begin);
  }
};

/// Loads weights, calls change(w) and stores them, with the roundings of UpdatedWeights.
template <int V, class M, class Change>
__device__ void change_weights(const UpdatedWeights<M>& weights, const Elements& at, const Change& change) {
  M w[V];
  if (weights.short_weights == nullptr) {
    at.load(weights.master, w);
    change(w);
    at.store(w, weights.master);
    if (weights.compute) {
      float copy[V];
#pragma unroll
      for (int i = 0; i < V; ++i) copy[i] = static_cast<float>(w[i]);
      at.store(copy, weights.compute);
    }
    return;
  }
  if constexpr (std::is_same_v<M, float>) {
    float rest[V] = {};
    at.load(weights.short_weights, w);
    if (weights.compensation) at.load(weights.compensation, rest);
#pragma unroll
    for (int i = 0; i < V; ++i) w[i] += rest[i];
    change(w);
    at.store(w, weights.short_weights);
    if (weights.compensation == nullptr) return;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      Bf16 kept;
      narrow(w[i], kept);
      rest[i] = w[i] - widened(kept);
    }
    at.store(rest, weights.compensation);
  }
}

}  // namespace lockstep::cuda
