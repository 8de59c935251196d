#include "model/model.hpp"

#include "base/error.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::int64_t piece_bytes = 16 << 20;

at::ScalarType scalar_type(const TensorDescription& tensor) {
  switch (tensor.dtype) {
    case DType::f64: return at::kDouble;
    case DType::f32: return at::kFloat;
    case DType::bf16: return at::kBFloat16;
    case DType::f16: return at::kHalf;
    default:
      throw Error(ExitCode::input,
                  fmt::format("cannot load tensor '{}' of type {}: weights are fp64, fp32, bf16 or fp16", tensor.name,
                              name_of(tensor.dtype)),
                  "convert the file to one of these types");
  }
}

/// Rows of dim 0 at a time, so that a large tensor never exists twice.
void load_parameter(const TensorSource& source, const TensorDescription& tensor, Parameter& parameter) {
  if (tensor.shape != parameter.description().shape) {
    throw Error(ExitCode::input,
                fmt::format("cannot load tensor '{}': its shape is {}, the model's is {}", tensor.name,
                            to_text(tensor.shape), to_text(parameter.description().shape)),
                "these weights belong to another config.json");
  }
  if (parameter.shard_elements() == 0) return;
  const at::ScalarType type = scalar_type(tensor);
  const Box& own = parameter.box();
  const std::int64_t rows = own.extent.empty() ? 1 : own.extent[0], row = parameter.shard_elements() / rows;
  if (!parameter.description().view.empty()) {  // a box of a view is none of the file's tensor
    std::vector<std::byte> all(static_cast<std::size_t>(elements(tensor.shape) * size_of(tensor.dtype)));
    source.read(tensor.name, whole(tensor.shape), all);
    at::Tensor part = at::from_blob(all.data(), view_of(parameter.description()), at::TensorOptions().dtype(type));
    for (std::size_t dim = 0; dim < own.extent.size(); ++dim)
      part = part.narrow(static_cast<std::int64_t>(dim), own.begin[dim], own.extent[dim]);
    parameter.master().view(own.extent).copy_(part);
    return;
  }
  const std::int64_t step = std::clamp<std::int64_t>(piece_bytes / (row * size_of(tensor.dtype)), 1, rows);
  std::vector<std::byte> piece(static_cast<std::size_t>(step * row * size_of(tensor.dtype)));
  const at::Tensor target = parameter.master().view({rows, row});
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    Box box = own;
    if (!own.extent.empty()) {
      box.begin[0] += begin;
      box.extent[0] = count;
    }
    source.read(tensor.name, box,
                std::span(piece).first(static_cast<std::size_t>(count * row * size_of(tensor.dtype))));
    target.narrow(0, begin, count).copy_(at::from_blob(piece.data(), {count, row}, at::TensorOptions().dtype(type)));
  }
}

/// `parameter` under its own name, or a tied one under the other.
const TensorDescription& find_stored(const TensorSource& source, const Parameter& parameter,
                                     const Architecture& architecture) {
  std::vector<std::string> names{parameter.name()};
  for (const BlockDescription& block : architecture.blocks) {
    for (const LogicalTensor& tensor : block.tensors) {
      if (tensor.alias_of == parameter.name()) names.push_back(tensor.name);
    }
  }
  for (const std::string& name : names) {
    const auto found = std::find_if(source.list().begin(), source.list().end(),
                                    [&](const TensorDescription& t) { return t.name == name; });
    if (found != source.list().end()) return *found;
  }
  return find_tensor(source, parameter.name());
}

}  // namespace

void Model::load(const TensorSource& source) {
  for (Parameter* parameter : parameters_)
    load_parameter(source, find_stored(source, *parameter, architecture_), *parameter);
  for (Unit* unit : units_) unit->update_compute_copy();
}

}  // namespace lockstep
