// The number types of a run, by its Precision. Weights, gradients and optimizer state are kept in the master
// type; kernels read the compute type; what flows through blocks has the stream type, and between them too unless
// another output type is asked for.
#pragma once

#include "base/precision.hpp"
#include "layout/dtype.hpp"
#include "program/model_plan.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

at::ScalarType master_type(Precision precision);   // fp32; of fp64 fp64
at::ScalarType compute_type(Precision precision);  // that of the precision's name
at::ScalarType stream_type(Precision precision);   // of the residual stream within blocks: the master type
DType master_dtype(Precision precision);           // master_type in the project's vocabulary
DType compute_dtype(Precision precision);          // and compute_type
at::ScalarType scalar_type(DType dtype);           // of a type that tensors of the network may have
DType dtype_of(at::ScalarType type);               // the same the other way
/// What units of this precision store with an optimizer that keeps `state`.
UnitTypes unit_types(Precision precision, UpdateStates states = {});

}  // namespace lockstep
