#include "tensor/arena.hpp"

#include "base/error.hpp"
#include "device/device.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <memory>
#include <span>
#include <utility>

namespace lockstep {

at::TensorOptions device_options(at::ScalarType type) {
  const DeviceProperties& device = this_device().properties();
  const auto of_device = static_cast<at::DeviceType>(device.tensor_type);
  return at::TensorOptions().dtype(type).device(
      of_device == at::kCPU ? at::Device(at::kCPU)
                            : at::Device(of_device, static_cast<at::DeviceIndex>(device.tensor_index)));
}

at::Tensor empty_in(Arena arena, std::int64_t length, at::ScalarType type) {
  if (arena == Arena::device || length == 0) return at::empty({length}, device_options(type));
  const auto options = at::TensorOptions().dtype(type).device(at::kCPU);
  auto memory =
      std::make_shared<c10::DataPtr>(host_memory(static_cast<std::size_t>(length) * options.dtype().itemsize()));
  void* const values = memory->get();
  return at::from_blob(values, {length}, [held = std::move(memory)](void*) mutable { held.reset(); }, options);
}

Region region_of(const at::Tensor& tensor, Arena arena) {
  invariant(tensor.is_contiguous(), "a region is contiguous memory");
  return {arena, static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

Region region_of(const at::Tensor& tensor) {
  return region_of(tensor, tensor.device().is_cpu() ? Arena::host : Arena::device);
}

std::vector<double> values_on_host(const at::Tensor& tensor) {
  invariant(tensor.scalar_type() == at::kDouble, "values_on_host takes fp64");
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  read_region(region_of(tensor), std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace lockstep
