// The model that a run starts from, where it is one of the Hugging Face hub.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// The configuration with the folder in the hub's cache of this machine where model.config or model.path is
/// OWNER/NAME and no path that is there. Rank 0 looks, so that its environment counts. Collective over the session's
/// world. Throws Error(input) for a model that is neither here nor in the cache.
TrainConfig with_local_model(TrainConfig config, Session& session);

/// The generation_config.json that checkpoints of the run keep: that of the checkpoint that it begins with, else that
/// of model.path; empty: there is none. Collective over `world`. Throws Error(input) for one that is no JSON object.
std::string generation_config_of(const TrainConfig& config, const std::optional<Path>& begun, Communicator& world);

}  // namespace lockstep
