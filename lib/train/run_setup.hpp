// What training and an evaluation alone set up alike: the session's limits, the threads of a rank, the plan that all
// ranks agree on, and the state of the run as a checkpoint has it.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "data/shard_verifier.hpp"
#include "model/model.hpp"
#include "optim/optimizer.hpp"
#include "store/component.hpp"
#include "store/run_storage.hpp"
#include "train/callbacks.hpp"
#include "train/cell_state.hpp"
#include "train/resume_or_start.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Deadlines of phases, and the failure to bring about, if one is wanted. `folder` as in Session::Settings. Local.
Session::Settings session_settings(const TrainConfig& config, const Path& folder);

struct Machines {
  std::vector<std::string> hosts;  // of every rank, by rank
  Placement placement = {};
  int threads = 1;  // that this rank computes with
};
/// Sets the threads and kernels of this rank up. Collective over `world`.
Machines set_up_machines(const TrainConfig& config, Communicator& world);

/// The ranks of a plan on their machines, as checkpoints see them. Local.
World world_of(const TrainPlan& plan, const Machines& machines);

/// What the run folder lies on, as checkpoint.storage says. Local.
RunStorage storage_of(const TrainConfig& config, const World& ranks);

/// What the rank with most scratch memory computes with, once machines are set up. Collective over `world`.
Processor processor_of(Communicator& world);

/// What is to be said about optimizer.groups and optimizer.in_backward. Local. Throws Error(usage) for a pattern that
/// matches nothing, where optimizer.unmatched refuses that.
std::vector<std::string> notes_on(const TrainConfig& config, const TrainPlan& plan);

/// The configuration with the sizes of axes that fill nodes (train/run_mesh.hpp), which are `nodes`. Local. Throws
/// Error(usage).
TrainConfig with_nodes_filled(TrainConfig config, const Nodes& nodes);

/// What a user would hardly want of the options. Local.
std::vector<std::string> warnings_on(const TrainConfig& config, const TrainPlan& plan);

/// What the files of model.path say of the model, as rank 0 sees them; its remarks are on rank 0 alone. Collective over
/// `world`. Throws what examine_weights throws.
WeightsReport agree_on_weights(const TrainConfig& config, Communicator& world);

/// The plan, whose step programs are equal on all ranks and fit into the memory of their machines. Collective over
/// `world`. Throws what agree_on_weights, make_train_plan, notes_on and require_memory throw.
TrainPlan agree_on_plan(const TrainConfig& config, Communicator& world);

/// Of the part of the shards that this rank verifies: the ranks of a machine share them. Local.
std::unique_ptr<ShardVerifier> make_verifier(VerifyData verify, int rank, const std::vector<std::string>& hosts);

/// RunState is weights, moments and where the run is, with the names that a checkpoint gives them.
class RunState {
 public:
  /// Memory, not yet filled. Local.
  RunState(const TrainConfig& config, const TrainPlan& plan, Rank rank);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  /// Fills all of it from the checkpoint that the configuration means, or where there is none as a run starts.
  /// Collective over the session's world. Throws what resume_or_start throws, with --eval-only what load_to_evaluate
  /// throws.
  RunStart fill(const TrainConfig& config, const TrainPlan& plan, const World& ranks,
                const std::optional<LocalTier>& local, Session& session, Log& log);

  Model model;
  std::unique_ptr<Optimizer> optimizer;
  CellState cells;
  TrainState train_state;
  std::vector<std::unique_ptr<Callback>> callbacks;
  std::vector<Component> components;
};

}  // namespace lockstep
