// The loop of training: steps, records, evaluation, callbacks, saving, stopping. Each decision is taken from what the
// heartbeat made equal on all ranks. What one step does: engine/engine.hpp.
#pragma once

#include "app/output.hpp"
#include "checkpoint/save.hpp"
#include "comm/stop.hpp"
#include "config/train_config.hpp"
#include "data/data_loader.hpp"
#include "data/prefetcher.hpp"
#include "data/shard_verifier.hpp"
#include "engine/engine.hpp"
#include "optim/schedule.hpp"
#include "store/component.hpp"
#include "train/cadence_clock.hpp"
#include "train/callbacks.hpp"
#include "train/cell_state.hpp"
#include "train/early_stop.hpp"
#include "train/evaluation.hpp"
#include "train/failed_saves.hpp"
#include "train/promotions.hpp"
#include "train/run_files.hpp"
#include "train/run_journal.hpp"
#include "train/run_statistics.hpp"
#include "train/save_clock.hpp"
#include "train/step_profile.hpp"
#include "train/train_plan.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Everything that the loop works with; all of it outlives the loop.
struct LoopParts {
  TrainConfig& config;  // the control file may change how often something is done
  const TrainPlan& plan;
  const World& world;
  Session& session;
  Output& output;
  RunFiles& files;
  Engine& engine;
  const Model& model;
  const Tokenizer* tokenizer;  // null where all tokens are made
  const std::vector<Component>& components;
  CellState& cells;
  const std::vector<std::pair<std::string, std::string>>& documents;  // saved with each checkpoint
  TrainState& train_state;
  ShardVerifier& verifier;
  const std::vector<std::unique_ptr<Callback>>& callbacks;
};

enum class LoopEnd {
  finished,       // all steps are done
  stopped_saved,  // on request, after a checkpoint
  stopped_now,    // on a second request: what came after the last checkpoint is lost
};

class TrainingLoop {
 public:
  explicit TrainingLoop(const LoopParts& parts);

  /// Runs to the last step or to a request to stop. A save that is under way then, or when all ranks fail, is waited
  /// for. Collective over the world.
  LoopEnd run();
  /// The folder of the last checkpoint of this process group. Local.
  const std::optional<std::string>& last_checkpoint() const { return last_checkpoint_; }
  /// What the run came to, as far as the loop counts it. Local.
  void sum_up(SummaryRecord& record) const { journal_.sum_up(parts_.train_state, record); }

 private:
  LoopEnd run_steps();
  /// Tells callbacks of an event of the run as it is. Local.
  void tell(lockstep_event event);
  /// The same of epochs, before a step.
  void tell_epoch();
  bool finished() const { return is_finished(parts_.config, parts_.plan, parts_.train_state); }
  /// Whether a second request came in while the step that the first one ends was still running. Collective over the
  /// world.
  bool asked_again() const;
  StepOutcome step();
  /// Counts the step whose outcome it is.
  void count(const StepOutcome& outcome);
  /// What becomes of the loss scale, and of a run whose gradients overflow at every one: throws
  /// AgreedError(numerics) on all ranks then.
  void update_loss_scale(const StepOutcome& outcome);
  /// What this rank asks for on behalf of a change that the control file of the run wants: one that cannot be made is a
  /// warning. Local.
  Request request_of(const std::optional<StopChannels::Change>& change);
  /// Makes the change that the first rank was asked for. Collective over the world.
  void make_change();
  /// How far the run is, where that was asked for. Local.
  void tell_status();
  /// What this rank's process holds, as a debug line: between steps, where no save and no reduction is in flight.
  /// Local.
  void tell_holdings();
  /// Throws AgreedError(numerics) on all ranks unless the run may go on behind the step, which changed nothing.
  /// Collective over the world.
  void skip_step(const StepOutcome& outcome);
  /// Whether it is by the options after the last step, or by request.
  bool evaluation_due(Request requests) const;
  bool evaluation_delay_is_over() const;
  void evaluate();
  /// What the end of a run shows is of the best weights. Collective over the world.
  void end_with_best();
  /// Of the evaluation that is done. Local; the same on all ranks.
  void count_for_patience();
  void tell_evaluation(const EvalRecord& record);
  /// Counts a loss for divergence.detector, where it looks at such. Local; the same on all ranks.
  void watch(DivergenceLoss of, double loss);
  /// Ends a run that has diverged: saves first if divergence.action says so. Collective over the world. Throws
  /// AgreedError(numerics).
  [[noreturn]] void end_diverged();
  /// Counts the evaluation of now, of which `measured_` tells; returns whether it is the best so far.
  bool take_evaluation();
  /// What the best evaluations were measured on, or are ranked by, may have changed with a resume.
  void forget_incomparable_best();
  void save(AfterSave after);
  /// A save that does not go through the local tier, which could not take it. Collective over the world.
  SaveReport save_to_run(const std::vector<Component>& components);
  /// What an end waits for. Collective over the world.
  void end_saves();
  void tell_local_failure(const AgreedError& error, std::int64_t step);
  /// What checkpoint.components says of what a run has. Local.
  std::vector<Component> saved_components() const;
  /// What a checkpoint of now is made of. Collective over the world.
  std::vector<Component> components_now();
  /// The same, of which ranks that should hold the same have become of one mind, as checkpoint.on_difference says; a
  /// save compares what it does not. Collective over the world. Throws AgreedError(verdict).
  std::vector<Component> settled_components();
  /// Goes on with a save in the background, if one is under way, as far as all ranks have come; `after` says what then
  /// follows. Collective over the world.
  void carry_on_save(AfterSave after);
  /// Waits for it. Collective over the world.
  void finish_save(AfterSave after);
  /// The same where the run ends with a failure, which stays the one explanation. Collective over the world.
  void finish_save_of_failed_run();
  void advance_save(bool to_the_end, AfterSave after);
  void saved(const SaveReport& report, double stall_s, int waves);
  std::uint64_t snapshot_memory() const;  // bytes of a rank's copy at most; 0: as many as it takes
  bool saves_in_background() const { return parts_.plan.snapshot_limit.has_value(); }
  SaveRequest save_request() const;
  SaveRequest request_for(RunFolder& folder) const;
  /// What a save of now compares at Validation::rolling: it follows from the step, so that a resume goes on in turn.
  RollingShare share_of_now() const;
  AgreedError reason_of(const AgreedError& error) const;
  void tell_failed_save(const AgreedError& error, std::int64_t step, AfterSave after);
  /// `folder`, which may be null, is the one that is saved to.
  void enter_save(Phase phase, const RunFolder* folder) const;
  /// Whether it is due after the last step, by steps or epochs.
  bool due(const Cadence& every) const;
  /// What is due by time: rank 0 alone counts it.
  Request requests_of_clocks() const;
  RunView view() const { return view_of(parts_.train_state); }
  /// `state` outlives it.
  RunView view_of(const TrainState& state) const;
  /// The profile if it covers this step, else null.
  Profile* profile_of(std::int64_t step);
  /// Reports the profile, if there is one, and drops it. Collective over the world.
  void end_profile();

  LoopParts parts_;
  TrainingDataLoader loader_;
  std::optional<Prefetcher> prefetcher_;  // while run() runs
  StopChannels stop_;
  Saver saver_;                        // to the local tier, if there is one
  std::optional<Saver> saver_to_run_;  // around it
  SaveClock save_clock_;
  CadenceClock log_clock_, eval_clock_;
  Schedule schedule_;
  std::optional<RowLoss> loss_of_user_;  // of steps
  RunJournal journal_;
  Callbacks callbacks_;
  lockstep_facts facts_{};        // that callbacks are told
  std::int64_t epoch_told_ = -1;  // whose begin they know of
  RunStatistics statistics_;
  std::optional<Profile> profile_;  // until its last step is done
  StepBatch batch_;                 // of the next step
  std::int64_t valid_tokens_ = 0;   // of the next step, over all ranks
  std::int64_t samples_ = 0;        // and its samples
  std::vector<DatasetUse> uses_;    // and what it takes of each dataset
  DataPosition began_at_;           // where the last step began
  std::int64_t began_step_;         // of this start
  double began_s_;                  // the time then
  std::int64_t logged_step_ = -1;
  std::int64_t evaluated_step_ = -1;
  std::vector<Metric> measured_;  // then
  bool diverged_ = false;         // as the last loss that was counted says
  std::int64_t saved_step_ = -1;  // of the newest checkpoint; 0: there is none
  std::int64_t begun_step_ = -1;  // of the save that was begun last in the background
  double last_save_s_ = 0;
  bool save_is_lost_ = false;  // that the local tier took in the background: one around it takes its place
  FailedSaves failed_saves_;
  std::optional<Promotions> promotions_;  // where there is a local tier
  std::optional<std::string> last_checkpoint_;
  std::optional<StopChannels::Change> change_;  // that the control file has asked this rank for, until it is made
};

}  // namespace lockstep
