// Loops over the flat buffers of a unit in stretches of parameters with equal settings, and conversion of 16-bit
// weights for an update. Shared by the optimizers.
#pragma once

#include "base/error.hpp"
#include "optim/groups.hpp"
#include "optim/optimizer.hpp"
#include "optim/short_weights_kernel.hpp"
#include "tensor/kernels/number.hpp"
#include "tensor/parallel.hpp"
#include "tensor/unit.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lockstep {

/// The compensation of 16-bit weights (their rounding errors), which is no state of the update rule. nullptr: none is
/// kept.
inline Bf16* compensation_of(const Unit& unit) {
  const bool keeps = !unit.kept().empty() && unit.kept().back().name == compensation_name;
  return keeps ? static_cast<Bf16*>(unit.state().back().mutable_data_ptr()) : nullptr;
}
/// The number of state buffers of the update rule itself.
inline std::size_t rule_buffers(const Unit& unit) {
  return unit.state().size() - (compensation_of(unit) == nullptr ? 0 : 1);
}

/// Calls `work(begin, end, factors_of(settings))` for every stretch of elements with equal settings, on several threads
/// at once; a stretch may be split anywhere.
template <class FactorsOf, class Work>
void for_each_stretch(const Unit& unit, const SettingsByParameter& settings, const FactorsOf& factors_of,
                      const Work& work) {
  using Factors = decltype(factors_of(ParameterSettings{}));
  struct Stretch {
    std::int64_t begin, end;
    Factors factors;
  };
  std::vector<Stretch> stretches;
  for (const auto& parameter : unit.parameters()) {
    const auto found = settings.find(parameter.get());
    invariant(found != settings.end(), "the optimizer knows every parameter that it updates");
    stretches.push_back({parameter->shard_offset(), parameter->shard_offset() + parameter->shard_elements(),
                         factors_of(found->second)});
  }
  parallel_for(unit.length(), 8192, [&](std::int64_t begin, std::int64_t end) {
    for (const Stretch& stretch : stretches) {
      const std::int64_t from = std::max(begin, stretch.begin), to = std::min(end, stretch.end);
      if (from < to) work(from, to, stretch.factors);
    }
  });
}

/// Calls `work` with a value of the type in which an update computes: fp64 for Precision::fp64, else fp32.
template <class Work>
void with_master_type(const Unit& unit, const Work& work) {
  if (unit.precision() == Precision::fp64) {
    work(double{});
  } else {
    work(float{});
  }
}

/// Calls `work` with a value of that type and a value of the state's type, which is the same or bf16.
template <class Work>
void with_state_type(const Unit& unit, const Work& work) {
  const bool is_short = rule_buffers(unit) > 0 && unit.kept().front().dtype == DType::bf16;
  if (unit.precision() == Precision::fp64) {
    invariant(!is_short, "state in bf16 is of weights in fp32");
    work(double{}, double{});
  } else if (is_short) {
    work(float{}, Bf16{});
  } else {
    work(float{}, float{});
  }
}

/// A flat buffer of the unit's state.
template <class S>
S* buffer_of(const Unit& unit, std::size_t index) {
  return static_cast<S*>(unit.state()[index].mutable_data_ptr());
}

/// The bf16 compute copy that an update writes together with the weights. nullptr: kernels read the master itself, or
/// complete_copy updates the copy afterwards.
inline Bf16* compute_copy_of(const Unit& unit) {
  const bool writes = unit.precision() == Precision::bf16 && !unit.is_short();
  return writes ? static_cast<Bf16*>(unit.compute().mutable_data_ptr()) : nullptr;
}

/// The weights of a unit in the type in which its update computes.
template <class M>
class WeightsInWork {
 public:
  explicit WeightsInWork(const Unit& unit)
      : weights_(unit.is_short() ? nullptr : values_of<M>(unit.master()).data()),
        compute_(compute_copy_of(unit)),
        short_(unit.is_short() ? static_cast<Bf16*>(unit.master().mutable_data_ptr()) : nullptr),
        compensation_(compensation_of(unit)) {}

  /// Calls `work(begin, end, weights, compute)` for consecutive parts of elements [from, to): `weights` points to the
  /// element `begin`, and rounded copies go to `compute` unless it is nullptr. 16-bit weights are widened before, with
  /// their compensation, and rounded afterwards.
  template <class Work>
  void operator()(std::int64_t from, std::int64_t to, const Work& work) const {
    if (short_ == nullptr) return work(from, to, weights_ + from, compute_ ? compute_ + from : nullptr);
    widened(from, to, [&](std::int64_t begin, std::int64_t end, auto* wide, Bf16* rest) {
      work(begin, end, wide, static_cast<Bf16*>(nullptr));
      round_weights(end - begin, wide, short_ + begin, rest);
    });
  }
  /// Calls `work(begin, end, weights)` likewise; `work` only reads the weights.
  template <class Work>
  void read(std::int64_t from, std::int64_t to, const Work& work) const {
    if (short_ == nullptr) return work(from, to, weights_ + from);
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
        Bf16* const rest = compensation_ ? compensation_ + begin : nullptr;
        widen_weights(count, short_ + begin, rest, wide.data());
        work(begin, begin + count, wide.data(), rest);
      }
    }
  }

  M* weights_;
  Bf16* compute_;
  Bf16* short_;
  Bf16* compensation_;
};

/// After an update: updates the compute copy if the update did not write it.
inline void complete_copy(Unit& unit) {
  if (compute_copy_of(unit) == nullptr) unit.update_compute_copy();
}

}  // namespace lockstep
