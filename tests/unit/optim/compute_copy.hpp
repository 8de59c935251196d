// What tests of optimizers ask of the copy of the weights that kernels read.
#pragma once

#include "tensor/number_types.hpp"
#include "tensor/unit.hpp"

namespace lockstep::test {

/// How far the copy is from the master weights rounded once; 0 where there is none.
inline double compute_copy_error(const Unit& unit) {
  const at::ScalarType type = compute_type(unit.precision());
  if (type == master_type(unit.precision())) return 0;
  return unit.compute().to(at::kFloat).sub(unit.master().to(type).to(at::kFloat)).abs().max().item<double>();
}

}  // namespace lockstep::test
