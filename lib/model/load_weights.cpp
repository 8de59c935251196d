#include "model/model.hpp"

#include "base/error.hpp"
#include "layout/box_runs.hpp"
#include "tensor/number_types.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace lockstep {

namespace {

constexpr std::int64_t piece_bytes = 16 << 20;

at::ScalarType scalar_type_of(const TensorDescription& tensor) {
  if (weight_type(tensor.dtype)) return scalar_type(tensor.dtype);
  throw Error(ExitCode::input,
              fmt::format("cannot load tensor '{}' of type {}: weights are fp64, fp32, bf16 or fp16", tensor.name,
                          name_of(tensor.dtype)),
              "convert the file to one of these types");
}

/// A box of a tensor of the source, a few rows at a time, so that a large one never exists twice. `target` has its
/// elements in their order.
void load_box(const TensorSource& source, const TensorDescription& tensor, const Box& box, const at::Tensor& target) {
  const at::ScalarType type = scalar_type_of(tensor);
  const std::int64_t rows = box.extent.empty() ? 1 : box.extent[0], row = elements(box) / rows;
  const at::Tensor by_rows = target.is_contiguous() ? target.view({rows, row}) : target;
  const std::int64_t row_bytes = row * size_of(tensor.dtype);
  const std::int64_t step = by_rows.size(0) == rows ? std::clamp<std::int64_t>(piece_bytes / row_bytes, 1, rows) : rows;
  std::vector<std::byte> piece(static_cast<std::size_t>(step * row_bytes));
  for (std::int64_t begin = 0; begin < rows; begin += step) {
    const std::int64_t count = std::min(step, rows - begin);
    source.read(tensor.name, box.extent.empty() ? box : rows_of(box, begin, count),
                std::span(piece).first(static_cast<std::size_t>(count * row_bytes)));
    const at::Tensor part = step == rows ? by_rows : by_rows.narrow(0, begin, count);
    part.copy_(at::from_blob(piece.data(), part.sizes(), at::TensorOptions().dtype(type)));
  }
}

/// This rank's box and nothing else of the tensor. A box of a view of it is several boxes of it.
void load_parameter(const TensorSource& source, const TensorDescription& tensor, Parameter& parameter) {
  if (tensor.shape != parameter.description().shape) {
    throw Error(ExitCode::input,
                fmt::format("cannot load tensor '{}': its shape is {}, the model's is {}", tensor.name,
                            to_text(tensor.shape), to_text(parameter.description().shape)),
                "the weights do not belong to this config.json");
  }
  if (parameter.shard_elements() == 0) return;
  const Box& own = parameter.box();
  for_each_box_in_view(own, view_of(parameter.description()), tensor.shape, [&](const Box& part, const Box& stored) {
    at::Tensor target = parameter.master().view(own.extent);
    for (std::size_t dim = 0; dim < own.extent.size(); ++dim)
      target = target.narrow(static_cast<std::int64_t>(dim), part.begin[dim] - own.begin[dim], part.extent[dim]);
    load_box(source, tensor, stored, target);
  });
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
