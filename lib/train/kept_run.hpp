// What a run resolved when it began, as its checkpoints tell: a start on other ranks goes by it.
#pragma once

#include "comm/communicator.hpp"
#include "config/run_length.hpp"
#include "config/train_config.hpp"
#include "store/manifest.hpp"

#include <optional>
#include <string>

namespace lockstep {

/// What a checkpoint says that its run resolved; absent in those of earlier versions, which said all of it in options.
/// Pure. Throws Error(input) naming `origin` where it cannot be read.
std::optional<ResolvedRun> resolved_in(const Manifest& manifest, const std::string& origin);

/// Of the checkpoints of the run, or the one that a new run starts from as a whole; absent if there are none, or they
/// do not tell. Local; reads a manifest.
std::optional<ResolvedRun> kept_run(const TrainConfig& config);

/// The same for all ranks. Collective over `world`.
std::optional<ResolvedRun> agree_on_kept(const TrainConfig& config, Communicator& world);

/// The configuration with the data.pad_to_multiple_of that its checkpoints keep, where it says none itself.
/// Collective over `world`.
TrainConfig with_kept_multiple(const TrainConfig& config, Communicator& world);

}  // namespace lockstep
