// A model's tensors as stored in Hugging Face files. Our decoder layers store the matrices of their experts in two
// stacks, back to back along dim 0, so that the number of tensors does not grow with the experts. The files have one
// tensor for each matrix of each expert.
#pragma once

#include "architecture/architecture.hpp"
#include "base/files.hpp"
#include "exchange/model_folder.hpp"
#include "store/tensor_source.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// A tensor of the files, and its rows within the stored tensor.
struct FileTensor {
  LogicalTensor tensor;  // with its name in the files
  std::string stored;    // name of the stored tensor that contains it, as whole rows
  std::int64_t row = 0;  // its first row there
};

/// Returns the file tensors in the order of `stored`; stacks expert by expert. Pure.
std::vector<FileTensor> file_tensors(const ModelConfig& config, const std::vector<LogicalTensor>& stored);

/// Opens the stored tensors of a model in a folder of Hugging Face files. Throws as open_model_weights does, and
/// Error(input) if matrices of one stack have different types. Local.
std::unique_ptr<TensorSource> open_stored_weights(const Path& folder, const Architecture& architecture);

/// Facts about a model that only its weights show, not config.json, and remarks for the user.
struct WeightsReport {
  Head head = Head::as_configured;
  Remarks remarks = {};
};
/// Examines the weights of a folder: reads head and embedding if config.json ties them and the files have both, else
/// only headers. A folder without weights gives an empty report. Local. Throws as read_hf_config and open_model_weights
/// do.
WeightsReport examine_weights(const Path& folder);

/// Returns a source of file tensors that reads from a source of all stored tensors.
std::unique_ptr<TensorSource> as_file_tensors(std::unique_ptr<TensorSource> stored, std::vector<FileTensor> files);

}  // namespace lockstep
