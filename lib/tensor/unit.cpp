#include "tensor/unit.hpp"

#include "base/error.hpp"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <new>

namespace lockstep {

at::ScalarType master_type(Precision precision) { return precision == Precision::fp64 ? at::kDouble : at::kFloat; }
at::ScalarType compute_type(Precision precision) {
  return precision == Precision::bf16 ? at::kBFloat16 : master_type(precision);
}
at::ScalarType stream_type(Precision precision) { return master_type(precision); }
DType master_dtype(Precision precision) { return precision == Precision::fp64 ? DType::f64 : DType::f32; }
DType compute_dtype(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : master_dtype(precision);
}
UnitTypes unit_types(Precision precision, std::vector<StateDescription> state) {
  return {master_dtype(precision), compute_dtype(precision), std::move(state)};
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

namespace {

Layout layout_of(const LogicalTensor& tensor, DType dtype, const ShardPlace& place) {
  Layout layout = replicated(tensor.shape, dtype, place.mesh);
  layout.pins = place.pins;
  if (place.sharding.shards > 1) layout.splits.push_back({.axes = place.sharding.axes, .dim = 0});
  return layout;
}

/// A view of the elements of `box` from `offset` on.
at::Tensor view(const at::Tensor& flat, std::int64_t offset, const Shape& shape) {
  return flat.narrow(0, offset, elements(shape)).view(shape);
}

}  // namespace

Unit::Unit(std::string name, const std::vector<LogicalTensor>& tensors, Precision precision,
           const std::vector<StateDescription>& state, const ShardPlace& place)
    : name_(std::move(name)), precision_(precision), cut_(place.sharding.shards > 1) {
  const DType dtype = master_dtype(precision);
  std::vector<std::int64_t> whole, shard;
  for (const LogicalTensor& tensor : tensors) {
    whole.push_back(elements(tensor.shape));
    shard.push_back(elements(longest_shard(tensor.shape, place.sharding.shards)));
  }
  const std::vector<std::int64_t> whole_offsets = unit_offsets(whole, dtype),
                                  shard_offsets = unit_offsets(shard, dtype);
  map_.whole_length = whole_offsets.back();
  map_.shard_length = shard_offsets.back();
  const std::vector<Rank> owners =
      cut_ ? group_along(place.mesh, place.rank, place.sharding.axes) : std::vector<Rank>{place.rank};
  map_.pieces.resize(owners.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout layout = layout_of(tensors[i], dtype, place);
    const std::int64_t row =
        tensors[i].shape.empty() ? 1 : elements(Shape(tensors[i].shape.begin() + 1, tensors[i].shape.end()));
    for (std::size_t owner = 0; owner < owners.size(); ++owner) {
      const Box box = box_of(layout, owners[owner]);
      const std::int64_t begin = box.begin.empty() ? 0 : box.begin[0] * row;
      if (elements(box) > 0) map_.pieces[owner].push_back({whole_offsets[i] + begin, shard_offsets[i], elements(box)});
    }
    parameters_.push_back(std::make_unique<Parameter>(
        *this, tensors[i], ParameterPlace{layout, box_of(layout, place.rank), whole_offsets[i], shard_offsets[i]}));
  }

  const at::ScalarType type = master_type(precision);
  master_ = buffer(length(), type, name_);
  compute_ = precision == Precision::bf16 ? buffer(length(), compute_type(precision), name_) : master_;
  gradient_ = buffer(length(), type, name_);
  for (const StateDescription& kept : state) state_.push_back(buffer(length(), scalar_type(kept.dtype), name_));
  if (!cut_) local_gradient_ = gradient_;
  for (const auto& parameter : parameters_) {
    const auto own = [&](const at::Tensor& flat) {
      return view(flat, parameter->shard_offset(), parameter->box().extent);
    };
    parameter->master_ = own(master_);
    parameter->gradient_ = own(gradient_);
    for (const at::Tensor& kept : state_) parameter->state_.push_back(own(kept));
    if (cut_) continue;
    parameter->compute_ = own(compute_);
    parameter->local_gradient_ = parameter->gradient_;
  }
}

const Unit::Views& Unit::views_of(const at::Tensor& whole) {
  invariant(cut_ && whole.numel() == whole_length(), "whole memory is lent to a unit that is cut");
  const auto [found, fresh] = lent_.try_emplace({whole.const_data_ptr(), whole.scalar_type()});
  if (fresh) {
    const at::Tensor flat = at::from_blob(whole.mutable_data_ptr(), {whole.numel()}, whole.options());
    for (const auto& parameter : parameters_)
      found->second.push_back(view(flat, parameter->offset(), parameter->shape()));
  }
  return found->second;
}

void Unit::lend_weights(const at::Tensor& whole) {
  const Views* views = whole.defined() ? &views_of(whole) : nullptr;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->compute_ = views ? (*views)[i] : at::Tensor();
}

void Unit::view_local_gradient(const at::Tensor& whole) {
  if (local_gradient_.defined()) {
    std::vector<int>& touches = touches_[local_gradient_.const_data_ptr()];
    touches.clear();
    for (const auto& parameter : parameters_) touches.push_back(parameter->touches_);
  }
  local_gradient_ = whole;
  const Views* views = whole.defined() ? &views_of(whole) : nullptr;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i]->local_gradient_ = views ? (*views)[i] : at::Tensor();
}

void Unit::lend_local_gradient(const at::Tensor& whole) {
  view_local_gradient(whole);
  zero_grad();
}

void Unit::resume_local_gradient(const at::Tensor& whole) {
  if (local_gradient_.defined() && local_gradient_.const_data_ptr() == whole.const_data_ptr()) return;
  const auto left = touches_.extract(whole.const_data_ptr());
  invariant(!left.empty(), "a gradient that goes on was lent before");
  view_local_gradient(whole);
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->touches_ = left.mapped()[i];
}

void Unit::end_local_gradient(const at::Tensor& whole) {
  if (local_gradient_.defined() && local_gradient_.const_data_ptr() == whole.const_data_ptr()) view_local_gradient({});
  touches_.erase(whole.const_data_ptr());
}

void Unit::zero_grad() {
  for (const auto& parameter : parameters_) parameter->touches_ = 0;
}

void Unit::finish_gradients() {
  for (const auto& parameter : parameters_) {
    if (parameter->touches_ == 0) parameter->local_gradient().zero_();
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
