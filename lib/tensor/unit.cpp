#include "tensor/unit.hpp"

#include "architecture/tensor_parallel.hpp"
#include "architecture/units.hpp"
#include "base/error.hpp"
#include "tensor/arena.hpp"
#include "tensor/libtorch_error.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <new>

namespace lockstep {

at::ScalarType master_type(Precision precision) { return precision == Precision::fp64 ? at::kDouble : at::kFloat; }
at::ScalarType compute_type(Precision precision) { return scalar_type(compute_dtype(precision)); }
at::ScalarType scalar_type(DType dtype) {
  if (const auto type = weight_type(dtype)) {
    switch (*type) {
      case WeightType::f64: return at::kDouble;
      case WeightType::f32: return at::kFloat;
      case WeightType::bf16: return at::kBFloat16;
      case WeightType::f16: return at::kHalf;
    }
  }
  fail(ExitCode::bug, "tensors cannot have the type {}", name_of(dtype));
}

DType dtype_of(at::ScalarType type) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    if (scalar_type(dtype) == type) return dtype;
  fail(ExitCode::bug, "unsupported tensor type {}", c10::toString(type));
}

at::ScalarType stream_type(Precision precision) { return master_type(precision); }
DType master_dtype(Precision precision) { return precision == Precision::fp64 ? DType::f64 : DType::f32; }
DType compute_dtype(Precision precision) {
  switch (precision) {
    case Precision::fp32: return DType::f32;
    case Precision::fp64: return DType::f64;
    case Precision::bf16: return DType::bf16;
    case Precision::fp16: return DType::f16;
  }
  fail(ExitCode::bug, "unknown Precision {}", static_cast<int>(precision));
}
UnitTypes unit_types(Precision precision, UpdateStates states) {
  return {master_dtype(precision), compute_dtype(precision), std::move(states)};
}

UnitMemory unit_memory_of(const OffloadOptions& offload, bool in_backward, WeightMemory weights) {
  return {.weights = weights,
          .gradients = in_backward ? GradientMemory::lent : GradientMemory::held,
          .shards = offload.shards ? Arena::host : Arena::device,
          .state = offload.optimizer ? Arena::host : Arena::device};
}

namespace {

/// Zeroed memory for `length` elements, with `padding` behind them.
at::Tensor buffer(std::int64_t length, std::int64_t padding, at::ScalarType type, const std::string& unit,
                  Arena arena) {
  try {
    return empty_in(arena, length + padding, type).zero_().narrow(0, 0, length);
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError& error) {  // of a device
    throw Error(
        ExitCode::resources,
        fmt::format("cannot allocate {} elements for the parameters of {}: {}", length, unit, message_of(error)),
        "use a smaller model, train.offload, more ranks that share the weights, or a lower precision");
  } catch (const std::exception&) {  // c10::Error and std::bad_alloc alike
    throw Error(ExitCode::resources,
                fmt::format("cannot allocate {} elements for the parameters of {}: out of memory", length, unit),
                "use a smaller model, fewer ranks on this machine, or a lower precision");
  }
}

}  // namespace

namespace {

/// A tensor cut over axes among so many ranks, within what ranks that share blocks have of it.
Layout layout_of(const LogicalTensor& tensor, DType dtype, const ShardPlace& place, const std::vector<AxisName>& axes,
                 int shards) {
  Layout layout = replicated(view_of(tensor), dtype, place.mesh);
  if (!tensor.view.empty()) layout.known = tensor.shape;
  layout.pins = place.pins;
  if (tensor.cut) layout.splits.push_back(*tensor.cut);
  if (shards > 1) layout.splits.push_back({.axes = axes, .dim = 0});
  return layout;
}

/// A unit's tensors cut over axes: which part of the whole buffer the ranks along them have, and where their own
/// buffers have it.
struct Cut {
  std::vector<Layout> layouts;  // of weights of type `kept`
  std::vector<Box> parts;       // that this rank computes with
  std::vector<std::int64_t> whole_offsets, shard_offsets;
  std::vector<std::int64_t> rows;  // of parts, in memory of the whole buffer
  std::int64_t padding = 0;        // behind the whole buffer
  std::vector<Rank> owners;
  ShardMap map;

  Cut(const std::vector<LogicalTensor>& tensors, DType master, DType kept, const ShardPlace& place,
      const std::vector<AxisName>& axes, int shards)
      : owners(shards > 1 ? group_along(place.mesh, place.rank, axes) : std::vector<Rank>{place.rank}) {
    std::vector<std::int64_t> whole, shard;
    for (const LogicalTensor& tensor : tensors) {
      layouts.push_back(layout_of(tensor, kept, place, axes, shards));
      parts.push_back(box_of(layout_of(tensor, kept, place, {}, 1), place.rank));
      const Shape longest = longest_part(tensor, place.sharding.blocks);  // so that all ranks have equal offsets
      whole.push_back(elements(longest));
      shard.push_back(elements(longest_shard(longest, shards)));
      rows.push_back(tensor.row_multiple > 1 ? rows_in_memory(longest[0], tensor.row_multiple)
                     : longest.empty()       ? 1
                                             : parts.back().extent[0]);
    }
    whole_offsets = unit_offsets(whole, master);
    if (!tensors.empty())
      padding =
          unit_padding(whole_offsets, longest_part(tensors.back(), place.sharding.blocks), tensors.back().row_multiple);
    shard_offsets = unit_offsets(shard, master);
    map = {whole_offsets.back(), shard_offsets.back(), {}};
    for (const Rank owner : owners) {
      std::vector<ShardPiece>& pieces = map.pieces.emplace_back();
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const Box box = box_of(layouts[i], owner);
        const Shape& shape = parts[i].extent;
        const std::int64_t row = shape.empty() ? 1 : elements(Shape(shape.begin() + 1, shape.end()));
        const std::int64_t begin = box.begin.empty() ? 0 : (box.begin[0] - parts[i].begin[0]) * row;
        if (elements(box) > 0) pieces.push_back({whole_offsets[i] + begin, shard_offsets[i], elements(box)});
      }
    }
  }
};

/// A view of the elements of `box` from `offset` on.
at::Tensor view(const at::Tensor& flat, std::int64_t offset, const Shape& shape) {
  return flat.narrow(0, offset, elements(shape)).view(shape);
}

}  // namespace

std::int64_t Unit::place_state(const StateDescription& kept, const std::vector<LogicalTensor>& tensors, Rank rank,
                               std::vector<ParameterPlace>& places) const {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout layout = state_layout(kept, places[i].layout, tensors[i]);
    const Box box = box_of(layout, rank);
    lengths.push_back(elements(box));
    places[i].states.push_back({layout, box, places[i].shard});
  }
  if (kept.of == StateShape::elements) return length();
  const std::vector<std::int64_t> offsets = unit_offsets(lengths, master_dtype(precision_));
  for (std::size_t i = 0; i < tensors.size(); ++i) places[i].states.back().offset = offsets[i];
  return offsets.back();
}

Unit::Unit(std::string name, const std::vector<LogicalTensor>& tensors, Precision precision,
           const std::vector<StateDescription>& state, const ShardPlace& place, const UnitMemory& memory)
    : name_(std::move(name)), precision_(precision), cut_(place.sharding.shards > 1), memory_(memory) {
  const DType dtype = master_dtype(precision),
              kept_dtype = memory.weights == WeightMemory::compute ? compute_dtype(precision) : dtype;
  short_ = kept_dtype != dtype;
  trained_ = tensors.empty() || tensors.front().trained;
  for (const LogicalTensor& tensor : tensors)
    invariant(tensor.trained == trained_, "a unit is trained or frozen as a whole");
  const Cut own(tensors, dtype, kept_dtype, place, place.sharding.axes, place.sharding.shards);
  map_ = own.map;
  padding_ = own.padding;
  for (std::size_t i = 0; i + 1 < tensors.size(); ++i)
    invariant(tensors[i].row_multiple <= 1, "a parameter with padding is the last of its unit");
  std::vector<ParameterPlace> places;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    places.push_back({own.layouts[i], box_of(own.layouts[i], place.rank), own.parts[i], own.whole_offsets[i],
                      own.shard_offsets[i], own.rows[i]});
  if (trained_) kept_ = state;
  std::vector<std::int64_t> state_lengths;
  for (const StateDescription& kept : kept_) state_lengths.push_back(place_state(kept, tensors, place.rank, places));
  for (std::size_t i = 0; i < tensors.size(); ++i)
    parameters_.push_back(std::make_unique<Parameter>(*this, tensors[i], std::move(places[i])));
  if (place.sharding.kept_shards > 1) {
    const Cut kept(tensors, dtype, kept_dtype, place, place.sharding.kept_axes, place.sharding.kept_shards);
    kept_map_ = kept.map;
    kept_part_ = static_cast<std::size_t>(std::ranges::find(kept.owners, place.rank) - kept.owners.begin());
  }

  const at::ScalarType type = master_type(precision);
  if (!cut_) memory_.shards = Arena::device;
  if (memory_.shards == Arena::host) memory_.state = Arena::host;  // as host_part_of (program/offload.hpp) says
  const std::int64_t behind = cut_ ? 0 : padding_;  // kernels use the buffers of a unit that is not sharded
  const bool copies = compute_dtype(precision) != kept_dtype;
  master_ = buffer(length(), copies ? 0 : behind, scalar_type(kept_dtype), name_, memory_.shards);
  compute_ = copies ? buffer(length(), behind, compute_type(precision), name_, memory_.shards) : master_;
  if (trained_ && memory_.gradients == GradientMemory::held)
    gradient_ = buffer(length(), behind, type, name_, memory_.shards);
  for (std::size_t i = 0; i < kept_.size(); ++i)
    state_.push_back(buffer(state_lengths[i], 0, scalar_type(kept_[i].dtype), name_, memory_.state));
  home_ = {master_, compute_, gradient_, state_};
  if (!cut_) local_gradient_ = gradient_;
  for (const auto& parameter : parameters_) {
    const auto view_of = [&](const at::Tensor& flat) {
      return view(flat, parameter->shard_offset(), parameter->box().extent);
    };
    parameter->master_ = view_of(master_);
    if (gradient_.defined()) parameter->gradient_ = view_of(gradient_);
    for (std::size_t i = 0; i < state_.size(); ++i) {
      const StateSlot& kept = parameter->state_places()[i];
      parameter->state_.push_back(view(state_[i], kept.offset, kept.box.extent));
    }
    if (cut_) continue;
    parameter->compute_ = view_of(compute_);
    parameter->local_gradient_ = parameter->gradient_;
  }
}

const Unit::Views& Unit::views_of(const at::Tensor& memory, int slot, Part part) {
  invariant(memory.numel() == (part == Part::whole ? whole_length() : length()),
            "memory lent to a unit has the length of the unit");
  LentViews& lent = lent_[{slot, part}];
  if (lent.memory == memory.const_data_ptr() && lent.type == memory.scalar_type()) return lent.views;
  lent = {memory.const_data_ptr(), memory.scalar_type(), {}};
  const at::Tensor flat = at::from_blob(memory.mutable_data_ptr(), {memory.numel()}, memory.options());
  for (const auto& parameter : parameters_)
    lent.views.push_back(part == Part::whole ? view(flat, parameter->offset(), parameter->shape())
                                             : view(flat, parameter->shard_offset(), parameter->box().extent));
  return lent.views;
}

void Unit::lend_weights(const at::Tensor& whole, int slot) {
  invariant(cut_, "only a sharded unit borrows memory for whole weights");
  weights_ = whole;
  if (whole.defined()) zero_rows_behind(whole);
  const Views* views = whole.defined() ? &views_of(whole, slot, Part::whole) : nullptr;
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->compute_ = views ? (*views)[i] : at::Tensor();
}

at::Tensor Unit::keep_weights() const {
  const at::Tensor kept = at::empty({kept_map_.shard_length}, weights_.options());
  for (const ShardPiece& piece : kept_map_.pieces[kept_part_])
    kept.narrow(0, piece.shard, piece.length).copy_(weights_.narrow(0, piece.whole, piece.length));
  return kept;
}

void Unit::view_local_gradient(const at::Tensor& whole, int slot) {
  if (local_gradient_.defined()) {
    std::vector<int>& touches = touches_[local_slot_];
    touches.clear();
    for (const auto& parameter : parameters_) touches.push_back(parameter->touches_);
  }
  local_gradient_ = whole.defined() || cut_ ? whole : gradient_;
  local_slot_ = slot;
  const Views* views = whole.defined() ? &views_of(whole, slot, Part::whole) : nullptr;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& parameter = *parameters_[i];
    parameter.local_gradient_ = views ? (*views)[i] : cut_ ? at::Tensor() : parameter.gradient_;
  }
}

void Unit::lend_local_gradient(const at::Tensor& whole, int slot) {
  view_local_gradient(whole, slot);
  if (!cut_) zero_padding(whole);
  zero_rows_behind(whole);
  zero_grad();
}

void Unit::resume_local_gradient(const at::Tensor& whole, int slot) {
  if (local_gradient_.defined() && local_slot_ == slot) return;
  const auto left = touches_.extract(slot);
  invariant(!left.empty(), "a resumed local gradient was lent before");
  view_local_gradient(whole, slot);
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i]->touches_ = left.mapped()[i];
}

void Unit::end_local_gradient(int slot) {
  if (local_gradient_.defined() && local_slot_ == slot) view_local_gradient({}, no_slot);
  touches_.erase(slot);
}

void Unit::zero_padding(const at::Tensor& flat) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::int64_t begin = parameters_[i]->offset() + parameters_[i]->elements();
    const std::int64_t end = i + 1 < parameters_.size() ? parameters_[i + 1]->offset() : whole_length();
    if (begin < end) flat.narrow(0, begin, end - begin).zero_();
  }
}

void Unit::zero_rows_behind(const at::Tensor& whole) const {
  if (padding_ == 0) return;
  const std::int64_t end = parameters_.back()->offset() + parameters_.back()->elements();
  at::from_blob(static_cast<std::byte*>(whole.mutable_data_ptr()) + end * whole.element_size(),
                {whole.numel() + padding_ - end}, whole.options())
      .zero_();
}

void Unit::lend_gradient(const at::Tensor& own, int slot) {
  const bool is_local = !cut_ && (!local_gradient_.defined() || local_gradient_.is_same(gradient_));
  gradient_ = own.defined() ? own : home_.gradient;
  if (is_local) local_gradient_ = gradient_;
  const Views* views = nullptr;
  if (gradient_.defined()) {
    views = &views_of(gradient_, slot, Part::shard);
    for (std::size_t i = 0; own.defined() && i < parameters_.size(); ++i) {  // padding counts in sums over the buffer
      const std::int64_t end = parameters_[i]->shard_offset() + parameters_[i]->shard_elements();
      const std::int64_t next = i + 1 < parameters_.size() ? parameters_[i + 1]->shard_offset() : length();
      own.narrow(0, end, next - end).zero_();
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i]->gradient_ = views ? (*views)[i] : at::Tensor();
    if (is_local) parameters_[i]->local_gradient_ = parameters_[i]->gradient_;
  }
  if (own.defined() && !cut_) zero_rows_behind(own);
  if (is_local) zero_grad();
}

void Unit::add_gradient_of_peer(const at::Tensor& gradient) {
  for (const auto& parameter : parameters_)
    parameter->gradient_.add_(view(gradient, parameter->shard_offset(), parameter->box().extent));
}

std::vector<Unit::HostBuffer> Unit::host_buffers() {
  std::vector<HostBuffer> buffers;
  const bool shards = memory_.shards == Arena::host;
  if (shards) buffers.push_back({home_.master, &master_});
  if (shards && home_.gradient.defined())
    buffers.push_back({.home = home_.gradient, .now = &gradient_, .written = false});
  if (memory_.state == Arena::host)
    for (std::size_t i = 0; i < state_.size(); ++i) buffers.push_back({home_.state[i], &state_[i]});
  if (shards && !home_.compute.is_same(home_.master)) buffers.push_back({home_.compute, &compute_});
  return buffers;
}

std::int64_t Unit::update_bytes() {
  std::int64_t sum = 0;
  for (const HostBuffer& buffer : host_buffers()) sum += static_cast<std::int64_t>(buffer.home.nbytes());
  return sum;
}

std::vector<RegionCopy> Unit::fetch_update(const at::Tensor& memory) {
  std::vector<RegionCopy> copies;
  std::byte* at = region_of(memory, Arena::device).pointer;
  for (const HostBuffer& buffer : host_buffers()) {
    const Region home = region_of(buffer.home, Arena::host);
    copies.push_back({home, {Arena::device, at, home.bytes}});
    at += home.bytes;
  }
  return copies;
}

std::vector<RegionCopy> Unit::offload_update(const at::Tensor& memory) {
  std::vector<RegionCopy> copies;
  std::byte* at = region_of(memory, Arena::device).pointer;
  for (const HostBuffer& buffer : host_buffers()) {
    const Region home = region_of(buffer.home, Arena::host);
    if (buffer.written) copies.push_back({{Arena::device, at, home.bytes}, home});
    at += home.bytes;
  }
  return copies;
}

void Unit::lend_update(const at::Tensor& memory) {
  std::byte* at = memory.defined() ? region_of(memory, Arena::device).pointer : nullptr;
  for (const HostBuffer& buffer : host_buffers()) {
    *buffer.now = memory.defined() ? at::from_blob(at, {buffer.home.numel()}, device_options(buffer.home.scalar_type()))
                                   : buffer.home;
    if (memory.defined()) at += buffer.home.nbytes();
  }
  if (home_.compute.is_same(home_.master)) compute_ = master_;
}

RegionCopy Unit::fetch_shard(const at::Tensor& memory) const {
  return {region_of(home_.compute, Arena::host), region_of(memory, Arena::device)};
}

RegionCopy Unit::offload_gradient() const {
  return {region_of(gradient_, Arena::device), region_of(home_.gradient, Arena::host)};
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
  if (!compute_.is_same(master_)) compute_.copy_(master_);
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  invariant(tensor.is_contiguous() && tensor.device().is_cpu(), "bytes_of takes a contiguous tensor on the CPU");
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

}  // namespace lockstep
