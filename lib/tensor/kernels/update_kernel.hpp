// What the kernels of optimizers share: stretches of elements with equal settings, and the weights of a unit, which may
// be kept in 16 bits alone. Templates over raw pointers.
#pragma once

#include "tensor/kernels/number.hpp"
#include "tensor/kernels/short_weights_kernel.hpp"
#include "tensor/parallel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lockstep {

/// Elements [begin, end) of a unit, which have equal settings.
template <class Factors>
struct Stretch {
  std::int64_t begin = 0, end = 0;
  Factors factors = {};
};

/// The weights of a unit in an update: flat buffers, or nullptr.
template <class M>
struct UpdatedWeights {
  M* master = nullptr;            // nullptr: only 16-bit weights are kept
  Bf16* compute = nullptr;        // copy of the master that the update writes
  Bf16* short_weights = nullptr;  // 16-bit weights without a master
  Bf16* compensation = nullptr;   // their rounding errors; nullptr: not kept
};

/// Calls `work(begin, end, factors)` for the parts of every stretch, on several threads at once; a stretch may be split
/// anywhere within a unit of `length` elements.
template <class Factors, class Work>
void for_each_stretch(const std::vector<Stretch<Factors>>& stretches, std::int64_t length, const Work& work) {
  parallel_for(length, 8192, [&](std::int64_t begin, std::int64_t end) {
    for (const Stretch<Factors>& stretch : stretches) {
      const std::int64_t from = std::max(begin, stretch.begin), to = std::min(end, stretch.end);
      if (from < to) work(from, to, stretch.factors);
    }
  });
}

/// The weights of a unit in the type in which its update computes.
template <class M>
class WeightsInWork {
 public:
  explicit WeightsInWork(const UpdatedWeights<M>& weights) : weights_(weights) {}

  /// Calls `work(begin, end, weights, compute)` for consecutive parts of elements [from, to): `weights` points to the
  /// element `begin`, and rounded copies go to `compute` unless it is nullptr. 16-bit weights are widened before, with
  /// their compensation, and rounded afterwards.
  template <class Work>
  void operator()(std::int64_t from, std::int64_t to, const Work& work) const {
    if (weights_.short_weights == nullptr)
      return work(from, to, weights_.master + from, weights_.compute ? weights_.compute + from : nullptr);
    widened(from, to, [&](std::int64_t begin, std::int64_t end, auto* wide, Bf16* rest) {
      work(begin, end, wide, static_cast<Bf16*>(nullptr));
      round_weights(end - begin, wide, weights_.short_weights + begin, rest);
    });
  }
  /// Calls `work(begin, end, weights)` likewise; `work` only reads the weights.
  template <class Work>
  void read(std::int64_t from, std::int64_t to, const Work& work) const {
    if (weights_.short_weights == nullptr) return work(from, to, weights_.master + from);
    widened(from, to, [&](std::int64_t begin, std::int64_t end, const auto* wide, Bf16*) { work(begin, end, wide); });
  }

 private:
  template <class Work>
  void widened(std::int64_t from, std::int64_t to, const Work& work) const {
    if constexpr (std::is_same_v<M, float>) {
      constexpr std::int64_t at_once = 2048;
      std::array<float, at_once> wide;  // NOLINT: written before it is read
      for (std::int64_t begin = from; begin < to; begin += at_once) {
        const std::int64_t count = std::min(at_once, to - begin);
        Bf16* const rest = weights_.compensation ? weights_.compensation + begin : nullptr;
        widen_weights(count, weights_.short_weights + begin, rest, wide.data());
        work(begin, begin + count, wide.data(), rest);
      }
    }
  }

  UpdatedWeights<M> weights_;
};

/// Calls `work(begin, end, factors, weights, compute)` for the parts of every stretch, on several threads at once, with
/// the arguments of WeightsInWork.
template <class M, class Factors, class Work>
void for_each_part(const std::vector<Stretch<Factors>>& stretches, std::int64_t length,
                   const UpdatedWeights<M>& weights, const Work& work) {
  const WeightsInWork<M> in_work(weights);
  for_each_stretch(stretches, length, [&](std::int64_t from, std::int64_t to, const Factors& factors) {
    in_work(from, to, [&](std::int64_t begin, std::int64_t end, M* weight, Bf16* compute) {
      work(begin, end, factors, weight, compute);
    });
  });
}

}  // namespace lockstep
