// What the files of Hugging Face hold of a model's tensors. A decoder layer stores the matrices of its experts in two
// stacks, one behind the other along dim 0, so that a model has no more tensors for having more experts; the files have
// a matrix of each expert.
#pragma once

#include "architecture/architecture.hpp"
#include "base/files.hpp"
#include "exchange/model_folder.hpp"
#include "store/tensor_source.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// A tensor of the files, and what it is of the stored one.
struct FileTensor {
  LogicalTensor tensor;  // by its name in the files
  std::string stored;    // the tensor that holds it, whole rows
  std::int64_t row = 0;  // of that one, where it begins
};

/// In the order of `stored`, of the stacks expert by expert. Pure.
std::vector<FileTensor> file_tensors(const HfConfig& config, const std::vector<LogicalTensor>& stored);

/// The stored tensors of a model in a folder of Hugging Face files. Throws as open_model_weights does; Error(input) if
/// matrices of one stack have several types. Local.
std::unique_ptr<TensorSource> open_stored_weights(const Path& folder, const Architecture& architecture);

/// What the weights of a folder say of its model beside config.json, and what people should know of them.
struct WeightsReport {
  Head head = Head::as_configured;
  Remarks remarks = {};
};
/// Reads head and embedding where config.json ties them and the files have both, else only headers; a folder without
/// weights gives an empty report. Local. Throws as read_hf_config and open_model_weights do.
WeightsReport examine_weights(const Path& folder);

/// Tensors of files out of a source of stored ones, which has them all.
std::unique_ptr<TensorSource> as_file_tensors(std::unique_ptr<TensorSource> stored, std::vector<FileTensor> files);

}  // namespace lockstep
