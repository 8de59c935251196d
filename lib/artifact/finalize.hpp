// Body of finalize-quantize. It exports a checkpoint, a run or a Hugging Face folder as a folder that transformers and
// vLLM load. Weights are streamed, on one rank or many. Weights: artifact/export_weights.hpp. Opening the source:
// artifact/model_source.hpp.
#pragma once

#include "app/output.hpp"
#include "artifact/export_weights.hpp"
#include "comm/session.hpp"
#include "config/finalize_config.hpp"

namespace lockstep {

struct ExportResult {
  Path folder;
  ExportedWeights weights;
  std::vector<std::string> files;  // all files in the folder, sorted
};

/// Opens the model on rank 0 and then on all ranks. For a run, all ranks open the checkpoint that rank 0 chose by
/// config.which. Collective over `ranks`. Throws as open_model_source does.
ModelSource agreed_source(Communicator& ranks, const FinalizeConfig& config);

/// Writes config.json, generation_config.json, tokenizer files, safetensors and the report into config.output; all or
/// nothing. `source` is the same model on all ranks; companions are read on rank 0 only. Only rank 0 has `files` and
/// errors in the result. Throws Error(usage) if the output exists or the recipe does not fit the family; otherwise as
/// the parts do. Collective over the session's world.
ExportResult finalize(const FinalizeConfig& config, const ModelSource& source, Session& session,
                      const ExportProgress& advance);

/// Runs the tool. Prints a table with the storage and the error of each tensor (--json: the report). With --dry-run it
/// prints the plan after the same checks. Returns the exit code. Collective over the session's world.
int finalize_quantize(const FinalizeConfig& config, Session& session, Output& output);

}  // namespace lockstep
