// Decides where a run starts: from scratch, from weights, or from the checkpoint named by checkpoint.resume. A resumed
// run continues the same trajectory, so options that affect the trajectory or shapes cannot change. An evaluation or
// the continuation of texts accepts any checkpoint of the model and moves none. A run that begins with a part of
// another run's checkpoint is a new trajectory.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/fixed_options.hpp"
#include "config/train_config.hpp"
#include "model/model.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/component.hpp"
#include "store/run_storage.hpp"
#include "train/train_plan.hpp"

#include <functional>
#include <optional>
#include <vector>

namespace lockstep {

/// LoadedState is the state that a checkpoint is loaded into.
struct LoadedState {
  std::vector<Component> components;
  World ranks;                                                 // ranks that load it
  RunStorage storage;                                          // storage of the checkpoints
  std::optional<LocalTier> local;                              // local tier of the run
  std::function<void()> refresh;                               // restores the state after a failed load. Local
  std::function<void(const CheckpointReader&)> accepted = {};  // called before a checkpoint is loaded. Local
};

/// RunStart says from where a run continues.
struct RunStart {
  std::optional<Path> checkpoint;   // not set: from scratch
  std::vector<Difference> changed;  // options that changed, as checkpoint.allow_change permits
};

/// Throws Error(usage) if checkpoint.resume is never and the run has checkpoints. Local.
void refuse_to_start_over(const TrainConfig& config);

/// Loads model, moments and training state from the configured checkpoint into the components. Parts of another run's
/// checkpoint that checkpoint.only and checkpoint.skip exclude stay unchanged; so do parts that a checkpoint with
/// weights alone lacks. Skipped damaged checkpoints are logged. Collective over the world. Throws Error(usage) listing
/// the options that differ from the saved ones, Error(input) for a missing or damaged checkpoint.
RunStart resume_or_start(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                         const LoadedState& state);

/// Throws Error(input) unless the weights that load_weights_alone is to load are there, as far as folders show.
/// Collective over `world`.
void require_weights(const TrainConfig& config, Communicator& world);

/// Loads a checkpoint to use its weights as they are; returns nothing if the weights are those of model.path. A path in
/// checkpoint.resume is used even if the run has checkpoints of its own. Collective over the world. Throws Error(usage)
/// for a checkpoint of another model, Error(input) if there is none.
std::optional<Path> load_weights_alone(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                                       const LoadedState& state);

}  // namespace lockstep
