// The flat buffers of a unit as its update sees them: stretches of parameters with equal settings, weights and state.
// Shared by the optimizers.
#pragma once

#include "base/error.hpp"
#include "optim/groups.hpp"
#include "optim/optimizer.hpp"
#include "tensor/functions/dispatch.hpp"
#include "tensor/kernels/update_kernel.hpp"
#include "tensor/unit.hpp"

#include <cstdint>
#include <vector>

namespace lockstep {

/// The compensation of 16-bit weights (their rounding errors), which is no state of the update rule. Undefined: none is
/// kept.
inline at::Tensor compensation_of(const Unit& unit) {
  const bool keeps = !unit.kept().empty() && unit.kept().back().name == compensation_name;
  return keeps ? unit.state().back() : at::Tensor();
}
/// The number of state buffers of the update rule itself.
inline std::size_t rule_buffers(const Unit& unit) {
  return unit.state().size() - (compensation_of(unit).defined() ? 1 : 0);
}

/// The stretches of a unit with `factors_of(settings)`.
template <class FactorsOf>
auto stretches_of(const Unit& unit, const SettingsByParameter& settings, const FactorsOf& factors_of) {
  std::vector<Stretch<decltype(factors_of(ParameterSettings{}))>> stretches;
  for (const auto& parameter : unit.parameters()) {
    const auto found = settings.find(parameter.get());
    invariant(found != settings.end(), "the optimizer knows every parameter that it updates");
    stretches.push_back({parameter->shard_offset(), parameter->shard_offset() + parameter->shard_elements(),
                         factors_of(found->second)});
  }
  return stretches;
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

/// Calls `work(kernels)` with the kernels of the unit's device for the type in which an update computes: fp64 for
/// Precision::fp64, else fp32.
template <class Work>
void with_update_kernels(const Unit& unit, const Work& work) {
  const at::DeviceType device = unit.master().device().type();
  const KernelDevice scope(device);
  with_master_type(unit, [&]<class M>(M) { work(kernels_on<M>(device)); });
}

/// Whether the state of the unit's rule is kept in bf16.
inline bool has_short_state(const Unit& unit) {
  return rule_buffers(unit) > 0 && unit.kept().front().dtype == DType::bf16;
}

/// Whether an update writes the bf16 compute copy together with the weights. If not, kernels read the master itself, or
/// complete_copy updates the copy afterwards.
inline bool writes_compute_copy(const Unit& unit) { return unit.precision() == Precision::bf16 && !unit.is_short(); }

/// The weights of a unit for a kernel that computes in M.
template <class M>
UpdatedWeights<M> updated_weights(const Unit& unit) {
  UpdatedWeights<M> weights;
  if (unit.is_short())
    weights.short_weights = pointer<Bf16>(unit.master());
  else
    weights.master = pointer<M>(unit.master());
  if (writes_compute_copy(unit)) weights.compute = pointer<Bf16>(unit.compute());
  weights.compensation = pointer<Bf16>(compensation_of(unit));
  return weights;
}

/// After an update: updates the compute copy if the update did not write it.
inline void complete_copy(Unit& unit) {
  if (!writes_compute_copy(unit)) unit.update_compute_copy();
}

}  // namespace lockstep
