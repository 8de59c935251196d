// The body of train --sample: continues prompts with the weights of a checkpoint or of model.path. Texts during
// training: train/callbacks.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

namespace lockstep {

/// `given` is the result of sampling_alone. Continues the prompts with the checkpoint named by checkpoint.resume
/// (without one, with the weights of model.path). Rank 0 prints the texts: on a terminal as they grow, otherwise a
/// sample record for each. It writes no file and takes no lock, so a run may continue at the same time. Returns 0.
/// Collective over the session's world. Failures are agreed Errors: Error(usage) for more ranks than pp, tp and ep need
/// and for a model without a tokenizer, Error(input) if there are no weights, and for prompts as in
/// TextSampler::generate.
int sample_only(const TrainConfig& given, Session& session, Output& output);

}  // namespace lockstep
