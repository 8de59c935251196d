#include "artifact/export_weights.hpp"

#include "artifact/compressed_tensors.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "exchange/model_folder.hpp"
#include "exchange/safetensors.hpp"
#include "layout/box_runs.hpp"
#include "quant/bfloat16.hpp"
#include "quant/int8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <unordered_map>

namespace lockstep {

namespace {

constexpr std::int64_t piece_elements = std::int64_t{1} << 21;  // 8 MiB of fp32, at least one row

void require_finite(const std::string& name, std::int64_t first_row, std::int64_t row_elements,
                    std::span<const float> values) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  const std::int64_t row = first_row + (bad - values.begin()) / std::max<std::int64_t>(row_elements, 1);
  fail(ExitCode::numerics, "tensor '{}': {} in row {}", name, *bad, row);
}

/// Converts rows of a tensor and writes them. Returns what that changed.
class RowExport {
 public:
  RowExport(const LogicalTensor& tensor, Storage storage, SafetensorsWriter& writer)
      : tensor_(tensor), storage_(storage), writer_(writer) {}

  ErrorStatistics add(const Box& rows, std::span<const float> values) {
    switch (storage_) {
      case Storage::fp32: return add_fp32(rows, values);
      case Storage::bf16: return add_bf16(rows, values);
      case Storage::int8: return add_int8(rows, values);
    }
    return {};
  }

 private:
  ErrorStatistics add_fp32(const Box& rows, std::span<const float> values) {
    writer_.write(tensor_.name, rows, std::as_bytes(values));
    ErrorStatistics error;
    error.add(values, values);
    return error;
  }

  ErrorStatistics add_bf16(const Box& rows, std::span<const float> values) {
    std::vector<std::uint16_t> bits(values.size());
    std::vector<float> decoded(values.size());
    to_bf16(values, bits);
    from_bf16(bits, decoded);
    writer_.write(tensor_.name, rows, std::as_bytes(std::span(bits)));
    ErrorStatistics error;
    error.add(values, decoded);
    return error;
  }

  ErrorStatistics add_int8(const Box& rows, std::span<const float> values) {
    const auto columns = static_cast<std::size_t>(tensor_.shape[1]);
    const std::size_t count = values.size() / columns;
    const std::size_t words = int8_packed_words(columns);
    std::vector<std::uint16_t> scales(count);
    std::vector<std::uint32_t> packed(count * words);
    std::vector<std::int8_t> codes(columns);
    std::vector<float> decoded(columns);
    ErrorStatistics error;
    for (std::size_t row = 0; row < count; ++row) {
      const std::span channel = values.subspan(row * columns, columns);
      scales[row] = int8_scale(channel);
      int8_encode(channel, scales[row], codes);
      int8_pack(codes, std::span(packed).subspan(row * words, words));
      int8_decode(codes, scales[row], decoded);
      for (float& value : decoded) value = round_to_bf16(value);  // readers unpack into the type of the scales
      error.add(channel, decoded);
    }
    const PackedInt8 names = packed_int8(tensor_.name, tensor_.shape);
    const std::int64_t first = rows.begin[0];
    const auto extent = static_cast<std::int64_t>(count);
    if (first == 0) writer_.write(names.shape.name, whole({2}), std::as_bytes(std::span(tensor_.shape)));
    writer_.write(names.packed.name, {{first, 0}, {extent, names.packed.shape[1]}}, std::as_bytes(std::span(packed)));
    writer_.write(names.scale.name, {{first, 0}, {extent, 1}}, std::as_bytes(std::span(scales)));
    return error;
  }

  const LogicalTensor& tensor_;
  Storage storage_;
  SafetensorsWriter& writer_;
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
  constexpr std::array matrices{Role::query, Role::key, Role::value, Role::attention_output,
                                Role::gate,  Role::up,  Role::down};
  return std::ranges::find(matrices, role) != matrices.end();
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

std::vector<WeightPiece> pieces_of_rank(const std::vector<LogicalTensor>& tensors, int rank, int ranks) {
  std::int64_t total = 0;
  for (const LogicalTensor& tensor : tensors) total += elements(tensor.shape);
  const auto share_begins = [&](std::int64_t of) {  // without a product that overflows
    return total / ranks * of + total % ranks * of / ranks;
  };
  std::vector<WeightPiece> pieces;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t rows = tensors[i].shape.front(), row = elements(tensors[i].shape) / rows;
    const std::int64_t step = std::max<std::int64_t>(1, piece_elements / row);
    for (std::int64_t first = 0; first < rows; first += step) {
      const std::int64_t count = std::min(step, rows - first);
      if (before >= share_begins(rank) && before < share_begins(rank + 1)) pieces.push_back({i, first, count});
      before += count * row;
    }
  }
  return pieces;
}

namespace {

/// The rows of each tensor that pieces in order make up.
std::vector<RowRange> rows_of_tensors(const std::vector<WeightPiece>& pieces, std::size_t tensors) {
  std::vector<RowRange> rows(tensors);
  for (const WeightPiece& piece : pieces) {
    RowRange& own = rows[piece.tensor];
    if (own.first == own.end) own.first = piece.first;
    own.end = piece.first + piece.rows;
  }
  return rows;
}

/// What a piece changed, as ranks tell each other.
struct PieceError {
  std::size_t tensor = 0;
  ErrorStatistics error;
};
static_assert(std::is_trivially_copyable_v<PieceError>);

/// The errors of all pieces, in the order of the ranks and so of the tensors, on rank 0. Sums over pieces in this order
/// are the same whatever ranks had them. Collective.
std::vector<PieceError> gathered(Communicator& ranks, const std::vector<PieceError>& own) {
  std::string bytes(own.size() * sizeof(PieceError), '\0');
  std::memcpy(bytes.data(), own.data(), bytes.size());
  std::vector<PieceError> all;
  for (const std::string& part : ranks.gather(bytes, 0)) {
    const std::size_t before = all.size();
    all.resize(before + part.size() / sizeof(PieceError));
    std::memcpy(all.data() + before, part.data(), part.size());
  }
  return all;
}

/// The files, created by rank 0 and joined by the others. Collective.
std::unique_ptr<SafetensorsWriter> open_writer(const ModelSource& source, const std::vector<WeightPiece>& pieces,
                                               const ExportedWeights& plan, const Path& folder, Communicator& ranks) {
  std::vector<TensorDescription> declared;
  SafetensorsShare share;
  const std::vector<RowRange> rows = rows_of_tensors(pieces, source.tensors.size());
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    for (TensorDescription& part : stored_as(source.tensors[i], plan.tensors[i].storage)) {
      const bool by_rows = part.dtype != DType::i64;  // else the shape of a quantised matrix
      const bool has_first = rows[i].first == 0 && rows[i].end > 0;
      share.rows.push_back(by_rows ? rows[i] : RowRange{0, has_first ? part.shape.front() : 0});
      declared.push_back(std::move(part));
    }
  }
  std::unique_ptr<SafetensorsWriter> writer;
  const auto open = [&](SafetensorsShare::Role role) {
    share.role = role;
    writer =
        std::make_unique<SafetensorsWriter>(folder, std::move(declared), SafetensorsOptions{.share = std::move(share)});
  };
  share.staged_as = run_on_rank0(ranks, "create the files of weights", [&] {
    const std::string name = make_uuid();
    share.staged_as = name;
    open(SafetensorsShare::Role::creates);
    return name;
  });
  together(ranks, "open the files of weights", [&] {
    if (!writer) open(SafetensorsShare::Role::joins);
  });
  return writer;
}

}  // namespace

ExportedWeights export_weights(const ModelSource& source, Recipe recipe, ExportDtype dtype, const Path& folder,
                               Session& session, const ExportProgress& advance) {
  Communicator& ranks = session.world();
  ExportedWeights result = plan_export(source.tensors, recipe, dtype);
  const std::vector<WeightPiece> pieces = pieces_of_rank(source.tensors, ranks.rank(), ranks.size());
  const std::unique_ptr<SafetensorsWriter> writer = open_writer(source, pieces, result, folder, ranks);
  std::vector<PieceError> errors;
  long_work_together(session, "export weights", [&](const std::function<void()>& alive) {
    std::unordered_map<std::string, const TensorDescription*> stored;
    for (const TensorDescription& tensor : source.weights->list()) stored.emplace(tensor.name, &tensor);
    std::int64_t done = 0, of = 0;
    const auto box_of = [&](const WeightPiece& piece) {
      return rows_of(whole(source.tensors[piece.tensor].shape), piece.first, piece.rows);
    };
    for (const WeightPiece& piece : pieces) of += elements(box_of(piece));
    std::vector<float> values;
    for (const WeightPiece& piece : pieces) {
      const LogicalTensor& tensor = source.tensors[piece.tensor];
      const Box rows = box_of(piece);
      values.resize(static_cast<std::size_t>(elements(rows)));
      read_as_float(*source.weights, *stored.at(tensor.name), rows, values);
      require_finite(tensor.name, piece.first, elements(rows) / piece.rows, values);
      errors.push_back(
          {piece.tensor, RowExport(tensor, result.tensors[piece.tensor].storage, *writer).add(rows, values)});
      done += elements(rows);
      advance(done, of);
      alive();
    }
    if (ranks.rank() != 0) writer->finish();
  });
  together(ranks, "complete the files of weights", [&] {
    if (ranks.rank() == 0) writer->finish();
  });
  for (const PieceError& piece : gathered(ranks, errors)) result.tensors[piece.tensor].error.add(piece.error);
  result.files = writer->files();
  return result;
}

}  // namespace lockstep
