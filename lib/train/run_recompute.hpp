// Which activations the blocks of a run recompute in backward: as train.recompute and train.recompute_keeps say, as a
// plug-in chooses, or as train.activation_memory_budget needs.
#pragma once

#include "architecture/model_config.hpp"
#include "config/train_config.hpp"
#include "engine/make_model_plan.hpp"
#include "layout/mesh.hpp"
#include "program/program_options.hpp"

namespace lockstep {

/// Returns the policy for the blocks of `model`. `options` are the other options of its programs. Local. Throws
/// Error(usage) for a choice that the model does not have, and for a budget that no policy keeps.
RecomputePolicy recompute_policy(const TrainOptions& train, const ModelConfig& config, const Mesh& mesh,
                                 const ModelPlan& model, const ProgramOptions& options);

}  // namespace lockstep
