// finalize-quantize: from a checkpoint, a run or a Hugging Face folder to a folder that transformers, vLLM and their
// kin load. Streaming, on one rank or many. Weights: artifact/export_weights.hpp; where they come from:
// artifact/model_source.hpp.
#pragma once

#include "app/output.hpp"
#include "artifact/export_weights.hpp"
#include "comm/session.hpp"
#include "config/finalize_config.hpp"

namespace lockstep {

struct Exported {
  Path folder;
  ExportedWeights weights;
  std::vector<std::string> files;  // all that the folder holds, sorted
};

/// The model as rank 0 finds it, on all ranks: of a run the same checkpoint, as config.which says. Collective over
/// `ranks`. Throws what open_model_source throws.
ModelSource agreed_source(Communicator& ranks, const FinalizeConfig& config);

/// Writes into config.output: config.json, generation_config.json, tokenizer files, safetensors and the report; all or
/// nothing. `source` is the same model on all ranks; its companions count on rank 0, which alone has `files` and errors
/// afterwards. Throws Error(usage) if the output is taken or the recipe does not fit the family; else as the parts say.
/// Collective over the session's world.
Exported finalize(const FinalizeConfig& config, const ModelSource& source, Session& session,
                  const ExportProgress& advance);

/// The tool. Prints a table of what was stored how, and how far from the source it is (--json: the report); with
/// --dry-run what would be stored, after the same checks. Returns the exit code. Collective over the session's world.
int finalize_quantize(const FinalizeConfig& config, Session& session, Output& output);

}  // namespace lockstep
