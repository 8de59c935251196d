// The values that a run resolved when it began, as its checkpoints store them. A start on other ranks keeps them.
#pragma once

#include "comm/communicator.hpp"
#include "config/run_length.hpp"
#include "config/train_config.hpp"
#include "store/manifest.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// Returns the resolved values in a checkpoint; not set for checkpoints of earlier versions, which have only options.
/// Pure. Throws Error(input) naming `origin` if they cannot be read.
std::optional<ResolvedRun> resolved_in(const Manifest& manifest, const std::string& origin);

/// Returns the resolved values of the run's checkpoints, or of the checkpoint that a new run loads completely; not set
/// if there is none or it lacks them. Local; reads a manifest.
std::optional<ResolvedRun> kept_run(const TrainConfig& config);

/// Returns kept_run of rank 0 on all ranks. Collective over `world`.
std::optional<ResolvedRun> agree_on_kept(const TrainConfig& config, Communicator& world);

/// Returns the configuration with the data.pad_to_multiple_of stored in the run's checkpoints, if it does not set one
/// itself. Collective over `world`.
TrainConfig with_kept_multiple(const TrainConfig& config, Communicator& world);

}  // namespace lockstep
