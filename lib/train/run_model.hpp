// Finds the model that a run starts from if it is a model of the Hugging Face hub. Its datasets:
// prepare/hub_inputs.hpp.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Returns the configuration with OWNER/NAME in model.config or model.path replaced by the folder in this machine's hub
/// cache, unless a path of this name exists. Rank 0 searches, so its environment applies. Collective over the session's
/// world. Throws Error(input) for a model that is neither a path nor in the cache.
TrainConfig with_local_model(TrainConfig config, Session& session);

/// Returns the generation_config.json that checkpoints of the run store: that of the checkpoint that the run begins
/// with, else that of model.path; empty if there is none. Collective over `world`. Throws Error(input) if it is not a
/// JSON object.
std::string generation_config_of(const TrainConfig& config, const std::optional<Path>& begun, Communicator& world);

}  // namespace lockstep
