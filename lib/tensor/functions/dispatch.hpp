// Calls kernels on tensors: typed pointers, and the choice of kernels by device and type. Shared by the sources of this
// folder.
#pragma once

#include "base/error.hpp"
#include "tensor/functions/kernel_table.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <initializer_list>
#include <utility>

namespace lockstep {

/// The device whose kernels are being called by with_kernels on this thread; otherwise the CPU.
class KernelDevice {
 public:
  explicit KernelDevice(at::DeviceType device) : outer_(std::exchange(current(), device)) {}
  ~KernelDevice() { current() = outer_; }
  KernelDevice(const KernelDevice&) = delete;
  KernelDevice& operator=(const KernelDevice&) = delete;
  static at::DeviceType& current() {
    thread_local at::DeviceType device = at::kCPU;
    return device;
  }

 private:
  at::DeviceType outer_;
};

/// Returns the elements of a contiguous tensor as T; nullptr for an undefined one. Throws Error(bug) for a tensor of
/// another element size, one that is not contiguous, or one in memory of another device than the kernels'.
template <class T>
T* pointer(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  invariant(tensor.is_contiguous() && tensor.element_size() == static_cast<std::int64_t>(sizeof(T)),
            "kernels get contiguous tensors of their type");
  invariant(tensor.device().type() == KernelDevice::current(), "kernels get memory of their device");
  return static_cast<T*>(tensor.mutable_data_ptr());
}

/// Returns the elements of a contiguous tensor as T for a kernel that reads them once: memory of the kernels' device,
/// or of the host arena (tensor/arena.hpp), which is pinned, so that a device reads it in place.
template <class T>
const T* pointer_to_read(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu()) return pointer<T>(tensor);
  const KernelDevice host(at::kCPU);
  return pointer<T>(tensor);
}

/// Calls body(kernels) with the kernels of a device for a compute type: a Kernels<T> of the type's storage T.
template <class Body>
decltype(auto) with_kernels(at::DeviceType device, at::ScalarType type, const Body& body) {
  const KernelDevice scope(device);
  switch (type) {
    case at::kFloat: return body(kernels_on<float>(device));
    case at::kDouble: return body(kernels_on<double>(device));
    case at::kBFloat16: return body(kernels_on<Bf16>(device));
    case at::kHalf: return body(kernels_on<Fp16>(device));
    default: throw Error(ExitCode::bug, "invariant violated: kernels exist for fp32, fp64, bf16 and fp16");
  }
}
/// Calls body(kernels) with the kernels for a tensor's device and type.
template <class Body>
decltype(auto) with_kernels(const at::Tensor& of, const Body& body) {
  return with_kernels(of.device().type(), of.scalar_type(), body);
}

/// The type of computations and sums: fp32 for bf16 and fp16.
inline at::ScalarType math_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

/// Returns an uninitialised tensor on the device of `beside`.
inline at::Tensor fresh(std::initializer_list<std::int64_t> shape, at::ScalarType type, const at::Tensor& beside) {
  return at::empty(at::IntArrayRef(shape.begin(), shape.size()),
                   at::TensorOptions().dtype(type).device(beside.device()));
}

}  // namespace lockstep
