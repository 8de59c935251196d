// Going through the flat buffers of a unit where its parameters have settings of their own.
#pragma once

#include "base/error.hpp"
#include "optim/groups.hpp"
#include "tensor/kernels/number.hpp"
#include "tensor/parallel.hpp"
#include "tensor/unit.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep {

/// Calls `work(begin, end, factors_of(settings))` for every stretch of elements with equal settings, on several threads
/// at once; a stretch may be cut anywhere.
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

/// Calls `work` with a value of the type in which the unit keeps weights, gradients and state.
template <class Work>
void with_master_type(const Unit& unit, const Work& work) {
  if (unit.precision() == Precision::fp64) {
    work(double{});
  } else {
    work(float{});
  }
}

/// The same with a value of the type of the state as well: that of the weights, or bf16.
template <class Work>
void with_state_type(const Unit& unit, const Work& work) {
  const bool is_short = !unit.kept().empty() && unit.kept().front().dtype == DType::bf16;
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

/// The unit's compute copy that an update writes along; null where kernels read the master itself, or a copy that
/// follows by itself: see complete_copy.
inline Bf16* compute_copy_of(const Unit& unit) {
  return unit.precision() == Precision::bf16 ? static_cast<Bf16*>(unit.compute().mutable_data_ptr()) : nullptr;
}

/// After an update: a copy that it did not write along follows the master.
inline void complete_copy(Unit& unit) {
  if (compute_copy_of(unit) == nullptr) unit.update_compute_copy();
}

}  // namespace lockstep
