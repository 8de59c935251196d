// Where a run starts: from scratch, from weights, or from the checkpoint that checkpoint.resume means. A resumed run
// continues the same trajectory, so what alters trajectory or shapes must be what it was. An evaluation alone takes any
// checkpoint of the model, and leaves all of them where they are; a run that begins with a part of another one's
// checkpoint is a new trajectory.
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

/// What a checkpoint is loaded into.
struct LoadedState {
  std::vector<Component> components;
  World ranks;                     // that load it
  RunStorage storage;              // that they load it from
  std::optional<LocalTier> local;  // of the run, besides
  std::function<void()> refresh;   // makes it what it was before a load that broke off. Local
  std::function<void(const CheckpointReader&)> accepted = {};  // called for one that is about to be loaded. Local
};

/// From where a run goes on.
struct RunStart {
  std::optional<Path> checkpoint;   // nothing: from scratch
  std::vector<Difference> changed;  // what checkpoint.allow_change let be another one than there
};

/// Throws Error(usage) where checkpoint.resume is never and the run has checkpoints. Local.
void refuse_to_start_over(const TrainConfig& config);

/// Fills model, moments and trajectory through the components from the checkpoint that the configuration means. What
/// checkpoint.only and checkpoint.skip leave out of another run's is left as it is, and so is what another one that
/// holds weights alone does not have. Damaged checkpoints that were passed over are logged. Collective over the world.
/// Throws Error(usage) listing the options that differ from the saved ones, Error(input) for an absent or damaged
/// checkpoint.
RunStart resume_or_start(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                         const LoadedState& state);

/// The same for an evaluation alone: nothing if the weights are those of model.path. A path that checkpoint.resume
/// names is taken whatever the run has. Collective over the world. Throws Error(usage) for a checkpoint of another
/// model, Error(input) if there is nothing to evaluate.
std::optional<Path> load_to_evaluate(const TrainConfig& config, const TrainPlan& plan, Session& session, Log& log,
                                     const LoadedState& state);

}  // namespace lockstep
