// Where a model to be exported comes from: a checkpoint, one of a run, or a Hugging Face folder.
#pragma once

#include "architecture/architecture.hpp"
#include "base/files.hpp"
#include "config/values.hpp"
#include "exchange/model_folder.hpp"
#include "store/tensor_source.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A file that is copied beside the weights.
struct Companion {
  Path file;
  Path name;  // in the export
};

struct ModelSource {
  Path folder;  // of the checkpoint or of the Hugging Face files
  HfConfig config;
  std::vector<LogicalTensor> tensors;            // as files have them, in block order
  std::unique_ptr<TensorSource> weights;         // has all of them, in their shapes
  std::vector<Companion> companions;             // those of the tokenizer
  std::optional<std::string> generation_config;  // its generation_config.json; absent: it has none
  std::optional<std::int64_t> step;              // of a checkpoint
  std::string state_digest;                      // of a checkpoint; empty otherwise
  std::vector<std::string> warnings;             // what of the files is not read or not as config.json says
  std::vector<std::string> notes;                // what of the model's configuration was changed, and why
  Head head = Head::as_configured;               // of Hugging Face files
  std::vector<std::string> rejected;             // newer checkpoints of the run that are damaged, with the reason
};

/// Opens `path`; of a run the checkpoint that `which` says, of several candidates the first that is sound. With
/// `tokenizer` the tokenizer files come from that folder, else from RUN/tokenizer or the Hugging Face folder. Throws
/// Error(input) naming what is missing, damaged or of another shape, Error(usage) for a choice where there is none.
/// With `head`, which another rank has found, Hugging Face files are not compared, and there are no remarks on them.
/// Local.
ModelSource open_model_source(const Path& path, const CheckpointChoice& which, const std::optional<Path>& tokenizer,
                              const std::optional<Head>& head = {});

}  // namespace lockstep
