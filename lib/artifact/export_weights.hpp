// Streams a model's weights into safetensors, converting or quantising them. Memory is independent of the size of the
// model and its tensors. Each rank handles its own pieces of rows; files and errors do not depend on the number of
// ranks. The error of each conversion is measured. The other files of the folder: artifact/finalize.hpp.
#pragma once

#include "artifact/model_source.hpp"
#include "comm/session.hpp"
#include "config/finalize_config.hpp"
#include "quant/error_statistics.hpp"

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// Storage is the format of a tensor in the files.
enum class Storage { bf16, fp32, int8 };
std::string_view name_of(Storage storage);

/// Returns the storage of `tensor`: int8 only for the matrices of decoder layers. Pure.
Storage storage_of(const LogicalTensor& tensor, Recipe recipe, ExportDtype dtype);

struct ExportedTensor {
  std::string name;
  Shape shape;
  Storage storage = Storage::bf16;
  std::uint64_t bytes = 0;  // in the files
  // Error of the values that a reader gets, against the source in fp32. A reader unpacks int8 into bf16.
  ErrorStatistics error;
};

struct ExportedWeights {
  std::vector<ExportedTensor> tensors;
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
};

/// Returns the result of export_weights without errors and files. Pure.
ExportedWeights plan_export(const std::vector<LogicalTensor>& tensors, Recipe recipe, ExportDtype dtype);

/// Rows of a tensor that are read, converted and written at once.
struct WeightPiece {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};
/// Returns the pieces of `rank`, in order. A piece is at most 8 MiB in fp32, but at least a row. All ranks have about
/// the same number of elements. Pure.
std::vector<WeightPiece> pieces_of_rank(const std::vector<LogicalTensor>& tensors, int rank, int ranks);

/// Called after each piece, on a separate thread, with this rank's finished elements and its total.
using ExportProgress = std::function<void(std::int64_t done, std::int64_t of)>;

/// Writes the safetensors of `source` into the existing folder. The model is the same on all ranks, and all ranks see
/// the folder. Only rank 0 receives the errors. Collective over the session's world. Throws Error(numerics) for a value
/// that is not finite, naming tensor and row; Error(input), Error(storage); and Error(verdict) after a stop request.
/// Then no file is left.
ExportedWeights export_weights(const ModelSource& source, Recipe recipe, ExportDtype dtype, const Path& folder,
                               Session& session, const ExportProgress& advance);

}  // namespace lockstep
