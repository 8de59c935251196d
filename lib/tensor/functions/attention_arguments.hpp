// Converts tensors to the arguments of attention kernels. Shared by the attention functions of this folder.
#pragma once

#include "tensor/functions/dispatch.hpp"
#include "tensor/functions/dropout.hpp"

namespace lockstep {

/// Rotation of a table from RotaryTable::table_for; an undefined tensor means no rotation.
template <class M>
Rotation<M> rotation_of(const at::Tensor& table) {
  if (!table.defined()) return {};
  const M* values = pointer<M>(table);
  return {values, values + table.size(1) * table.size(2)};
}

inline AttentionDropout dropout_of(const Dropout& dropout, std::int64_t first_head) {
  return {dropout.mask, pointer<Place>(dropout.places), first_head};
}

}  // namespace lockstep
