// Set-up that training, --eval-only and --sample have in common: deadlines of the session, threads of a rank, the plan
// that all ranks agree on, and the state of the run in a checkpoint's form.
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
#include "train/run_device.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Returns the deadlines of phases, and the failure to inject if one is configured. `folder` as in Session::Settings.
/// Local.
Session::Settings session_settings(const TrainConfig& config, const Path& folder);

struct Machines {
  std::vector<std::string> hosts;  // host name of each rank
  Placement placement = {};
  int threads = 1;  // threads of this rank
  RunDevices devices = {};
};
/// Sets up the threads, the device and the kernels of this rank. Collective over `world`. Throws as open_device does.
Machines set_up_machines(const TrainConfig& config, Communicator& world);

/// Returns the ranks of a plan on their machines, in the form that checkpoints use. Local.
World world_of(const TrainPlan& plan, const Machines& machines);

/// Returns the kind of storage of the run folder, as checkpoint.storage says. Local.
RunStorage storage_of(const TrainConfig& config, const World& ranks);

/// Returns the largest number of threads of any rank, and the implementation of bf16 products with the most scratch
/// memory. Called after set_up_machines. Collective over `world`.
Processor processor_of(Communicator& world);

/// Returns notes on optimizer.groups, optimizer.in_backward, model.path, the batch and post-local SGD. Local. Throws
/// Error(usage) for a pattern that matches nothing if optimizer.unmatched refuses that.
std::vector<std::string> notes_on(const TrainConfig& config, const TrainPlan& plan);

/// Returns the configuration with the sizes of axes that fill nodes (train/run_mesh.hpp). Local. Throws Error(usage).
TrainConfig with_nodes_filled(TrainConfig config, const Nodes& nodes);

/// Returns warnings about the model, its files, and the data that it is used on. Local.
std::vector<std::string> warnings_on_model(const TrainConfig& config, const TrainPlan& plan);

/// Returns these, and warnings about options that a user would hardly want. Local.
std::vector<std::string> warnings_on(const TrainConfig& config, const TrainPlan& plan);

/// Returns the report on the files of model.path as rank 0 sees them; its remarks are on rank 0 alone. Collective over
/// `world`. Throws as examine_weights does.
WeightsReport agree_on_weights(const TrainConfig& config, Communicator& world);

/// Returns the plan. Its step programs are equal on all ranks and fit into the memory of their machines. Collective
/// over `world`. Throws as agree_on_weights, make_train_plan, notes_on and require_memory do.
TrainPlan agree_on_plan(const TrainConfig& config, Communicator& world);

/// Returns a verifier of this rank's part of the shards; the ranks of a machine divide them. Local.
std::unique_ptr<ShardVerifier> make_verifier(VerifyData verify, int rank, const std::vector<std::string>& hosts);

/// RunState holds weights, moments and the training state, with the names that a checkpoint uses.
class RunState {
 public:
  /// Allocates memory without filling it. Local.
  RunState(const TrainConfig& config, const TrainPlan& plan, Rank rank);
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  /// Fills the state from the configured checkpoint, or with initial values if there is none, or with --calibrate.
  /// Collective over the session's world. Throws as resume_or_start does, without training as load_weights_alone does.
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
