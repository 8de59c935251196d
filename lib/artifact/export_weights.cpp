#include "artifact/export_weights.hpp"

#include "artifact/compressed_tensors.hpp"
#include "base/error.hpp"
#include "exchange/model_folder.hpp"
#include "exchange/safetensors.hpp"
#include "quant/bfloat16.hpp"
#include "quant/int8.hpp"
#include "store/box_runs.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace lockstep {

namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 21;  // 8 MiB of fp32, at least one row

void require_finite(const std::string& name, std::int64_t first_row, std::int64_t row_elements,
                    std::span<const float> values) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  const std::int64_t row = first_row + (bad - values.begin()) / std::max<std::int64_t>(row_elements, 1);
  fail(ExitCode::numerics, "cannot export tensor '{}': {} in row {}", name, *bad, row);
}

/// Rows of one tensor on their way into the files.
class TensorExport {
 public:
  TensorExport(const LogicalTensor& tensor, Storage storage, SafetensorsWriter& writer)
      : tensor_(tensor), storage_(storage), writer_(writer) {
    result_ = {tensor.name, tensor.shape, storage, 0, {}};
    if (storage != Storage::int8) return;
    const PackedInt8 packed = packed_int8(tensor.name, tensor.shape);
    write(packed.shape.name, whole({2}), std::as_bytes(std::span(tensor.shape)));
  }

  void add_rows(const Box& rows, std::span<const float> values) {
    switch (storage_) {
      case Storage::fp32:
        write(tensor_.name, rows, std::as_bytes(values));
        result_.error.add(values, values);
        return;
      case Storage::bf16: return add_bf16(rows, values);
      case Storage::int8: return add_int8(rows, values);
    }
  }

  ExportedTensor take() { return std::move(result_); }

 private:
  void write(const std::string& name, const Box& box, std::span<const std::byte> bytes) {
    writer_.write(name, box, bytes);
    result_.bytes += bytes.size();
  }

  void add_bf16(const Box& rows, std::span<const float> values) {
    std::vector<std::uint16_t> bits(values.size());
    std::vector<float> decoded(values.size());
    to_bf16(values, bits);
    from_bf16(bits, decoded);
    write(tensor_.name, rows, std::as_bytes(std::span(bits)));
    result_.error.add(values, decoded);
  }

  void add_int8(const Box& rows, std::span<const float> values) {
    const auto columns = static_cast<std::size_t>(tensor_.shape[1]);
    const std::size_t count = values.size() / columns;
    const std::size_t words = int8_packed_words(columns);
    std::vector<std::uint16_t> scales(count);
    std::vector<std::uint32_t> packed(count * words);
    std::vector<std::int8_t> codes(columns);
    std::vector<float> decoded(columns);
    for (std::size_t row = 0; row < count; ++row) {
      const std::span channel = values.subspan(row * columns, columns);
      scales[row] = int8_scale(channel);
      int8_encode(channel, scales[row], codes);
      int8_pack(codes, std::span(packed).subspan(row * words, words));
      int8_decode(codes, scales[row], decoded);
      for (float& value : decoded) value = round_to_bf16(value);  // readers unpack into the type of the scales
      result_.error.add(channel, decoded);
    }
    const PackedInt8 names = packed_int8(tensor_.name, tensor_.shape);
    const std::int64_t first = rows.begin[0];
    const auto extent = static_cast<std::int64_t>(count);
    write(names.packed.name, {{first, 0}, {extent, names.packed.shape[1]}}, std::as_bytes(std::span(packed)));
    write(names.scale.name, {{first, 0}, {extent, 1}}, std::as_bytes(std::span(scales)));
  }

  const LogicalTensor& tensor_;
  Storage storage_;
  SafetensorsWriter& writer_;
  ExportedTensor result_;
};

/// The tensors of the files that hold `tensor`.
std::vector<TensorDescription> stored_as(const LogicalTensor& tensor, Storage storage) {
  switch (storage) {
    case Storage::bf16: return {{tensor.name, tensor.shape, DType::bf16}};
    case Storage::fp32: return {{tensor.name, tensor.shape, DType::f32}};
    case Storage::int8: break;
  }
  PackedInt8 packed = packed_int8(tensor.name, tensor.shape);
  return {std::move(packed.packed), std::move(packed.scale), std::move(packed.shape)};
}

bool is_decoder_matrix(Role role) {
  switch (role) {
    case Role::query:
    case Role::key:
    case Role::value:
    case Role::attention_output:
    case Role::gate:
    case Role::up:
    case Role::down: return true;
    default: return false;
  }
}

}  // namespace

std::string_view name_of(Storage storage) {
  switch (storage) {
    case Storage::bf16: return "bf16";
    case Storage::fp32: return "fp32";
    case Storage::int8: return "int8";
  }
  return "unknown";
}

Storage storage_of(const LogicalTensor& tensor, Recipe recipe, ExportDtype dtype) {
  if (recipe == Recipe::int8 && is_decoder_matrix(tensor.role)) return Storage::int8;
  return dtype == ExportDtype::bf16 ? Storage::bf16 : Storage::fp32;
}

ExportedWeights plan_export(const std::vector<LogicalTensor>& tensors, Recipe recipe, ExportDtype dtype) {
  ExportedWeights plan;
  for (const LogicalTensor& tensor : tensors) {
    ExportedTensor entry{tensor.name, tensor.shape, storage_of(tensor, recipe, dtype), 0, {}};
    for (const TensorDescription& part : stored_as(tensor, entry.storage)) {
      entry.bytes += static_cast<std::uint64_t>(elements(part.shape) * size_of(part.dtype));
    }
    plan.bytes += entry.bytes;
    plan.tensors.push_back(std::move(entry));
  }
  return plan;
}

ExportedWeights export_weights(const ModelSource& source, Recipe recipe, ExportDtype dtype, const Path& folder,
                               const std::function<void(std::int64_t)>& advance) {
  std::unordered_map<std::string, const TensorDescription*> stored;
  for (const TensorDescription& tensor : source.weights->list()) stored.emplace(tensor.name, &tensor);
  std::vector<TensorDescription> declared;
  for (const LogicalTensor& tensor : source.tensors) {
    for (TensorDescription& part : stored_as(tensor, storage_of(tensor, recipe, dtype)))
      declared.push_back(std::move(part));
  }
  SafetensorsWriter writer(folder, std::move(declared));
  ExportedWeights result;
  std::vector<float> values;
  std::int64_t done = 0;
  for (const LogicalTensor& tensor : source.tensors) {
    TensorExport out(tensor, storage_of(tensor, recipe, dtype), writer);
    const Box all = whole(tensor.shape);
    const std::int64_t rows = tensor.shape.front();
    const std::int64_t row_elements = elements(tensor.shape) / rows;
    const std::int64_t step = std::max<std::int64_t>(1, piece_elements / row_elements);
    for (std::int64_t row = 0; row < rows; row += step) {
      const Box piece = rows_of(all, row, std::min(step, rows - row));
      values.resize(static_cast<std::size_t>(elements(piece)));
      read_as_float(*source.weights, *stored.at(tensor.name), piece, values);
      require_finite(tensor.name, row, row_elements, values);
      out.add_rows(piece, values);
      done += elements(piece);
      advance(done);
    }
    result.tensors.push_back(out.take());
    result.bytes += result.tensors.back().bytes;
  }
  writer.finish();
  result.files = writer.files();
  return result;
}

}  // namespace lockstep
