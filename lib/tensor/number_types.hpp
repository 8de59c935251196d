// The number types of a run, by its Precision. Weights, gradients and optimizer state have the master type. Kernels
// read the compute type. Activations within blocks have the stream type, and so do those passed between blocks unless
// another output type is set.
#pragma once

#include "base/precision.hpp"
#include "layout/dtype.hpp"
#include "program/model_plan.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

at::ScalarType master_type(Precision precision);   // fp32; fp64 for Precision::fp64
at::ScalarType compute_type(Precision precision);  // the type that the precision is named after
at::ScalarType stream_type(Precision precision);   // residual stream within blocks: the master type
DType master_dtype(Precision precision);           // master_type as a DType
DType compute_dtype(Precision precision);          // compute_type as a DType
at::ScalarType scalar_type(DType dtype);           // for types that tensors of the network may have
DType dtype_of(at::ScalarType type);               // the inverse
/// The types that units of this precision store, with an optimizer that keeps `state`.
UnitTypes unit_types(Precision precision, UpdateStates states = {});

}  // namespace lockstep
