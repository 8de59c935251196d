// Streams a model's weights into safetensors, converted or quantised on the way, in memory that does not grow with the
// model nor with a tensor. Ranks share pieces of rows out among each other; files and errors are the same on any number
// of them. Measures what each conversion changes. What stands beside the weights in the folder: artifact/finalize.hpp.
#pragma once

#include "artifact/model_source.hpp"
#include "comm/session.hpp"
#include "config/finalize_config.hpp"
#include "quant/error_statistics.hpp"

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

/// How a tensor is stored.
enum class Storage { bf16, fp32, int8 };
std::string_view name_of(Storage storage);

/// How `tensor` is stored: int8 only for the matrices of decoder layers. Pure.
Storage storage_of(const LogicalTensor& tensor, Recipe recipe, ExportDtype dtype);

struct ExportedTensor {
  std::string name;
  Shape shape;
  Storage storage = Storage::bf16;
  std::uint64_t bytes = 0;  // in the files
  ErrorStatistics error;  // of the values that a reader gets, in bf16 where it unpacks int8, against the source in fp32
};

struct ExportedWeights {
  std::vector<ExportedTensor> tensors;
  std::vector<std::string> files;
  std::uint64_t bytes = 0;
};

/// What export_weights would store, without errors and files. Pure.
ExportedWeights plan_export(const std::vector<LogicalTensor>& tensors, Recipe recipe, ExportDtype dtype);

/// Some rows of a tensor, as they are read, converted and written at once.
struct WeightPiece {
  std::size_t tensor = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
};
/// Pieces of at most 8 MiB of fp32, or of a row, in order: those of `rank`, which have about as many elements as those
/// of every other. Pure.
std::vector<WeightPiece> pieces_of_rank(const std::vector<LogicalTensor>& tensors, int rank, int ranks);

/// Called after each piece, on a thread of its own, with the elements that this rank has done and those that it has.
using ExportProgress = std::function<void(std::int64_t done, std::int64_t of)>;

/// Writes the safetensors of `source`, the same model on all ranks, into the existing folder, which all ranks see.
/// Errors are known on rank 0 alone. Throws Error(numerics) for a value that is not finite, naming tensor and row;
/// Error(input), Error(storage), and then leaves no file; Error(verdict) after a request to stop. Collective over the
/// session's world.
ExportedWeights export_weights(const ModelSource& source, Recipe recipe, ExportDtype dtype, const Path& folder,
                               Session& session, const ExportProgress& advance);

}  // namespace lockstep
