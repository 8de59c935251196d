// From tensors to kernels: typed pointers and the choice of the instantiation. Shared by the sources of this folder.
#pragma once

#include "base/error.hpp"
#include "tensor/kernels/number.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <initializer_list>

namespace lockstep {

/// The elements of a contiguous tensor as T; nullptr for an undefined one.
template <class T>
T* pointer(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  invariant(tensor.is_contiguous() && tensor.element_size() == static_cast<std::int64_t>(sizeof(T)),
            "kernels get contiguous tensors of their type");
  return static_cast<T*>(tensor.mutable_data_ptr());
}

/// Calls body(T{}) with the kernel's storage type for a compute type.
template <class Body>
decltype(auto) with_type(at::ScalarType type, const Body& body) {
  switch (type) {
    case at::kFloat: return body(float{});
    case at::kDouble: return body(double{});
    case at::kBFloat16: return body(Bf16{});
    case at::kHalf: return body(Fp16{});
    default: throw Error(ExitCode::bug, "invariant violated: kernels exist for fp32, fp64, bf16 and fp16");
  }
}

/// The type that is computed and accumulated in: fp32 for bf16 and fp16.
inline at::ScalarType math_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

inline at::Tensor fresh(std::initializer_list<std::int64_t> shape, at::ScalarType type) {
  return at::empty(at::IntArrayRef(shape.begin(), shape.size()), at::TensorOptions().dtype(type));
}

}  // namespace lockstep
