// The training loop: steps, records and callbacks, and the decisions when to evaluate, save and stop. Each decision is
// taken from the result of the heartbeat, which is equal on all ranks. A single step: engine/engine.hpp.
#pragma once

#include "comm/stop.hpp"
#include "data/data_loader.hpp"
#include "data/prefetcher.hpp"
#include "engine/engine.hpp"
#include "optim/schedule.hpp"
#include "train/cadence_clock.hpp"
#include "train/callbacks.hpp"
#include "train/early_stop.hpp"
#include "train/loop_parts.hpp"
#include "train/product_search.hpp"
#include "train/run_evaluations.hpp"
#include "train/run_journal.hpp"
#include "train/run_saves.hpp"
#include "train/run_statistics.hpp"
#include "train/step_decision.hpp"
#include "train/step_profile.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class LoopEnd {
  finished,       // all steps are done
  stopped_saved,  // on request, after a checkpoint
  stopped_now,    // on a second request; work since the last checkpoint is lost
};

class TrainingLoop {
 public:
  explicit TrainingLoop(const LoopParts& parts);

  /// Runs to the last step or a stop request. If a save is under way then, or when all ranks fail, it waits for the
  /// save. Collective over the world.
  LoopEnd run();
  /// Returns the folder of the last checkpoint of this process group. Local.
  const std::optional<std::string>& last_checkpoint() const { return saves_.last_checkpoint(); }
  /// Names the request to stop that this rank received first: "SIGUSR1", "the control file"; empty: none. Local.
  std::string stop_reason() const;
  /// Returns `facts` with everything that the loop counts. Local.
  RunJournal::Summaries sum_up(SummaryRecord facts) const {
    return journal_.sum_up(parts_.train_state, std::move(facts));
  }

 private:
  LoopEnd run_steps();
  /// Passes an event to the callbacks, with the present facts of the run. Local.
  void tell(lockstep_event event);
  /// Passes the begin of an epoch to the callbacks, before a step. Local.
  void tell_epoch();
  bool finished() const { return is_finished(parts_.config, parts_.plan, parts_.train_state); }
  /// Returns whether a second stop request arrived during the step that the first one ends. Collective over the world.
  bool asked_again() const;
  StepOutcome step();
  StepOutcome run_or_save(const StepOrder& order);
  /// Counts the step with this outcome.
  void count(const StepOutcome& outcome);
  /// Updates the loss scale. Throws AgreedError(numerics) on all ranks if it falls below precision.min_scale.
  void update_loss_scale(const StepOutcome& outcome);
  /// Returns this rank's request for a change that the control file asks for. A change that cannot be made is a
  /// warning. Local.
  Request request_of(const std::optional<StopChannels::Change>& change);
  /// Makes the change that rank 0 was asked for. Collective over the world.
  void make_change();
  /// Reports the progress of the run. Local.
  void tell_status();
  /// Logs the memory, descriptors and threads of this process as a debug line. Called between steps, when no save and
  /// no reduction is in flight. Local.
  void tell_holdings();
  /// Reports a skipped step, which changed nothing. Throws AgreedError(numerics) on all ranks unless the run may
  /// continue. Collective over the world.
  void skip_step(const StepOutcome& outcome);
  /// Returns the facts by which decide() chooses an evaluation, a save or the end after the step.
  AfterStep facts_after(const StepOutcome& outcome) const;
  bool evaluation_delay_is_over() const;
  void evaluate();
  /// Loads the best weights at the end of a run and evaluates them; callbacks then see these weights. Collective over
  /// the world.
  void end_with_best();
  /// Counts a loss for divergence.detector, if the detector uses losses of this kind. Local; equal on all ranks.
  void watch(DivergenceLoss of, double loss);
  /// Ends a run that has diverged; saves first if divergence.action says so. Collective over the world. Throws
  /// AgreedError(numerics).
  [[noreturn]] void end_diverged();
  void save(AfterSave after);
  /// Returns whether an action is due after the last step, by steps or epochs.
  bool due(const Cadence& every) const;
  /// Returns the requests that are due by time; only rank 0 measures it.
  Request requests_of_clocks() const;
  RunView view() const { return view_of(parts_.train_state); }
  /// `state` must outlive the view.
  RunView view_of(const TrainState& state) const;
  /// Returns the profile if it covers this step, else null.
  Profile* profile_of(std::int64_t step);
  /// Reports the profile and drops it. Collective over the world.
  void end_profile();

  LoopParts parts_;
  TrainingDataLoader loader_;
  std::optional<Prefetcher> prefetcher_;  // set while run() runs
  StopChannels stop_;
  std::string stop_reason_;  // of the first request that this rank passed on
  CadenceClock log_clock_, eval_clock_;
  Schedule schedule_;
  std::optional<RowLoss> loss_of_user_;  // of a plug-in, for training steps; not set: built-in loss
  RunJournal journal_;
  Callbacks callbacks_;
  lockstep_facts facts_{};        // passed to callbacks
  std::int64_t epoch_told_ = -1;  // last epoch whose begin was passed to callbacks
  RunEvaluations evaluations_;
  RunSaves saves_;
  RunStatistics statistics_;
  ProductSearch products_;
  std::optional<Profile> profile_;  // set until its last step is done
  StepBatch batch_;                 // of the next step
  std::int64_t valid_tokens_ = 0;   // of the next step, over all ranks
  std::int64_t samples_ = 0;        // samples of the next step, over all ranks
  std::vector<DatasetUse> uses_;    // the use of each dataset in the next step
  DataPosition began_at_;           // position at the beginning of the last step
  std::int64_t began_step_;         // first step of this process group
  double began_s_;                  // time at its beginning
  std::int64_t logged_step_ = -1;
  bool diverged_ = false;  // according to the last counted loss
  // requested by this rank's control file, until it is made
  std::optional<StopChannels::Change> change_;
};

}  // namespace lockstep
