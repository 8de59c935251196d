#include "tensor/unit.hpp"

#include "base/error.hpp"

#include <ATen/ops/zeros.h>

#include <new>

namespace lockstep {

at::ScalarType master_type(Precision precision) { return precision == Precision::fp64 ? at::kDouble : at::kFloat; }
at::ScalarType compute_type(Precision precision) {
  return precision == Precision::bf16 ? at::kBFloat16 : master_type(precision);
}
at::ScalarType stream_type(Precision precision) { return master_type(precision); }
DType master_dtype(Precision precision) { return precision == Precision::fp64 ? DType::f64 : DType::f32; }
UnitTypes unit_types(Precision precision, std::vector<StateDescription> state) {
  const DType master = master_dtype(precision);
  return {master, precision == Precision::bf16 ? DType::bf16 : master, std::move(state)};
}

namespace {

at::Tensor buffer(std::int64_t length, at::ScalarType type, const std::string& unit) {
  try {
    return at::zeros({length}, at::TensorOptions().dtype(type));
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    throw Error(ExitCode::resources,
                fmt::format("cannot allocate {} elements for the parameters of {}: out of memory", length, unit),
                "use a smaller model, fewer ranks on this machine, or a lower precision");
  }
}

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return at::kDouble;
    case DType::f32: return at::kFloat;
    case DType::bf16: return at::kBFloat16;
    default: fail(ExitCode::bug, "an optimizer keeps no state of type {}", name_of(dtype));
  }
}

}  // namespace

Unit::Unit(std::string name, const std::vector<LogicalTensor>& tensors, Precision precision,
           const std::vector<StateDescription>& state)
    : name_(std::move(name)), precision_(precision) {
  std::vector<std::int64_t> counts;
  for (const LogicalTensor& tensor : tensors) counts.push_back(elements(tensor.shape));
  const std::vector<std::int64_t> offsets = unit_offsets(counts, master_dtype(precision));
  length_ = offsets.back();
  const at::ScalarType type = master_type(precision);
  master_ = buffer(length_, type, name_);
  compute_ = precision == Precision::bf16 ? buffer(length_, compute_type(precision), name_) : master_;
  gradient_ = buffer(length_, type, name_);
  for (const StateDescription& kept : state) state_.push_back(buffer(length_, scalar_type(kept.dtype), name_));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    parameters_.push_back(std::make_unique<Parameter>(*this, tensors[i], offsets[i]));
}

void Unit::zero_grad() {
  for (const auto& parameter : parameters_) parameter->touches_ = 0;
}

void Unit::finish_gradients() {
  for (const auto& parameter : parameters_) {
    if (parameter->touches_ == 0) parameter->gradient().zero_();
  }
}

void Unit::update_compute_copy() {
  if (precision_ == Precision::bf16) compute_.copy_(master_);
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  invariant(tensor.is_contiguous() && tensor.device().is_cpu(), "bytes are taken of contiguous tensors on the CPU");
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

}  // namespace lockstep
