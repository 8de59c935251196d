// Streams a model's weights into safetensors, converted or quantised on the way, in memory that does not grow with the
// model. Measures what each conversion changes. What stands beside the weights in the folder: artifact/finalize.hpp.
#pragma once

#include "artifact/model_source.hpp"
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

/// Writes the safetensors of `source` into the existing folder. `advance(elements)` is called after each piece with the
/// elements done. Throws Error(numerics) for a value that is not finite, naming tensor and row; Error(input),
/// Error(storage). Local.
ExportedWeights export_weights(const ModelSource& source, Recipe recipe, ExportDtype dtype, const Path& folder,
                               const std::function<void(std::int64_t)>& advance);

}  // namespace lockstep
