// LibTorch's operations on tensors of the fake device: shapes come from its meta device, values from the CPU, in jobs.
#include "base/error.hpp"
#include "memory.hpp"
#include "queues.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>
#include <utility>
#include <vector>

namespace lockstep::fake {

namespace {

bool is_ours(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == c10::kPrivateUse1; }

/// The bytes that a tensor of the device has now as a tensor of the CPU, for a job. As on a real device, a job does not
/// keep them.
at::Tensor as_of_cpu(const at::Tensor& tensor) {
  return at::from_blob(opened(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       tensor.options().device(at::kCPU));
}

/// Applies `change` to each tensor of the arguments.
template <class Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(change(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(tensor.defined() ? change(tensor) : tensor);
    return list;
  }
  if (value.isDevice()) return c10::IValue(change(at::Tensor()).device());
  return value;
}

std::vector<c10::IValue> called(const c10::OperatorHandle& operation, std::vector<c10::IValue> arguments) {
  operation.callBoxed(&arguments);
  return arguments;
}

/// Runs any operation whose results have shapes that its arguments' shapes decide.
void run_later(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = operation.schema();
  const std::size_t count = schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  stack->erase(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  std::vector<c10::IValue> shapes;
  for (const c10::IValue& argument : arguments)
    shapes.push_back(changed(argument, [](const at::Tensor& tensor) {
      if (!tensor.defined()) return at::empty_strided({0}, {1}, at::TensorOptions().device(at::kMeta));
      return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
    }));
  const std::vector<c10::IValue> results_of_meta = called(operation, shapes);
  std::vector<std::pair<std::size_t, at::Tensor>> made;  // results that are no argument, by number
  for (std::size_t i = 0; i < schema.returns().size(); ++i) {
    const c10::AliasInfo* const alias = schema.returns()[i].alias_info();
    if (alias == nullptr) {
      const at::Tensor& like = results_of_meta[i].toTensor();
      made.emplace_back(i, at::empty_strided(like.sizes(), like.strides(), like.options().device(tensor_device())));
      stack->push_back(made.back().second);
      continue;
    }
    for (std::size_t k = 0; k < count; ++k) {
      const c10::AliasInfo* const of_argument = schema.arguments()[k].alias_info();
      if (of_argument == nullptr || of_argument->beforeSets() != alias->beforeSets()) continue;
      invariant(shapes[k].toTensor().sizes() == arguments[k].toTensor().sizes(), "an operation changes no size");
      stack->push_back(arguments[k]);
    }
  }
  std::vector<c10::IValue> on_cpu;
  for (const c10::IValue& argument : arguments)
    on_cpu.push_back(changed(argument, [](const at::Tensor& tensor) {
      if (!tensor.defined()) return at::empty({0}, at::TensorOptions().device(at::kCPU));
      return is_ours(tensor) ? as_of_cpu(tensor) : tensor;
    }));
  std::vector<std::pair<std::size_t, at::Tensor>> results_on_cpu;
  for (const auto& [number, tensor] : made) results_on_cpu.emplace_back(number, as_of_cpu(tensor));
  submit(DeviceQueue::compute, [operation, on_cpu, results_on_cpu] {
    const std::vector<c10::IValue> results = called(operation, on_cpu);
    for (const auto& [number, tensor] : results_on_cpu) at::Tensor(tensor).copy_(results[number].toTensor());
  });
}

/// Tensors of a process lie on the device that it has opened.
void require_device(const std::optional<at::Device>& device) {
  TORCH_CHECK(!device || !device->has_index() || *device == tensor_device(), "a tensor is made on ", *device,
              ", but this process has opened ", tensor_device());
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  require_device(device);
  return at::detail::empty_generic(size, tensor_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_with_strides(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                              std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  require_device(device);
  return at::detail::empty_strided_generic(
      size, stride, tensor_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           offset ? std::optional<int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return as_strided(self, size, stride, std::nullopt);
}

/// Between the host and the device, or within the device.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (is_ours(self)) {
    const bool snapshot = !is_ours(source) && !(non_blocking && is_pinned(source.const_data_ptr()));
    submit(DeviceQueue::compute, [to = as_of_cpu(self), from = is_ours(source) ? as_of_cpu(source)
                                                               : snapshot      ? source.clone()
                                                                               : source] { to.copy_(from); });
    return self;
  }
  run_and_wait([self, source] { at::Tensor(self).copy_(as_of_cpu(source)); });
  return self;
}

c10::Scalar item(const at::Tensor& self) {
  at::Tensor value;
  run_and_wait([&] { value = as_of_cpu(self).clone(); });
  return value.item();
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  bool same = false;
  run_and_wait([&] { same = as_of_cpu(self).equal(as_of_cpu(other)); });
  return same;
}

/// One compute queue, on which LibTorch's streams and events are always in order.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream queue() { return c10::Stream(c10::Stream::DEFAULT, tensor_device()); }
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return tensor_device(); }
  c10::Device getDevice() const override { return tensor_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return queue(); }
  c10::Stream getDefaultStream(c10::Device) const override { return queue(); }
  c10::Stream exchangeStream(c10::Stream) const override { return queue(); }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(tensor_device().index() + 1);
  }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(tensor_device().index() + 1); }
  c10::DeviceIndex getCurrentDevice() const override { return tensor_device().index(); }
  at::Device getDeviceFromPtr(void*) const override { return tensor_device(); }
};

}  // namespace

void register_operations() {
  c10::register_privateuse1_backend("fake");
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_later>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_with_strides);
  library.impl("as_strided", as_strided);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("copy_", copy);
  library.impl("_local_scalar_dense", item);
  library.impl("equal", equal);
}

}  // namespace lockstep::fake
