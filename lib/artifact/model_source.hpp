// The source of an export: a checkpoint, a checkpoint of a run, or a Hugging Face folder.
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
  Path name;  // relative to the export folder
};

struct ModelSource {
  Path folder;  // of the checkpoint or the Hugging Face files
  ModelConfig config;
  std::vector<LogicalTensor> tensors;            // under their names in files, in block order
  std::unique_ptr<TensorSource> weights;         // holds all tensors, in their shapes
  std::vector<Companion> companions;             // tokenizer files
  std::optional<std::string> generation_config;  // text of generation_config.json; not set: there is none
  std::optional<std::int64_t> step;              // for checkpoints
  std::string state_digest;                      // for checkpoints; otherwise empty
  std::vector<std::string> warnings;             // parts of the files that are not read or contradict config.json
  std::vector<std::string> notes;                // changes of the model's configuration, with reasons
  Head head = Head::as_configured;               // for Hugging Face files
  std::vector<std::string> rejected;             // damaged newer checkpoints of the run, with the reason
};

/// Opens `path`. For a run it opens the checkpoint that `which` selects; of several candidates it takes the first valid
/// one. Tokenizer files come from `tokenizer`, or else from RUN/tokenizer or the Hugging Face folder. If another rank
/// has found `head` already, the head of Hugging Face files is not compared again, and there are no remarks. Local.
/// Throws Error(input) naming missing, damaged or wrongly shaped parts, and Error(usage) if `which` selects where there
/// is no choice.
ModelSource open_model_source(const Path& path, const CheckpointChoice& which, const std::optional<Path>& tokenizer,
                              const std::optional<Head>& head = {});

}  // namespace lockstep
