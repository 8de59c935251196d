// The loop of training: steps, records and callbacks, and when to evaluate, to save and to stop. Each decision is taken
// from what the heartbeat made equal on all ranks. What one step does: engine/engine.hpp.
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
#include "train/run_evaluations.hpp"
#include "train/run_journal.hpp"
#include "train/run_saves.hpp"
#include "train/run_statistics.hpp"
#include "train/step_profile.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

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
  const std::optional<std::string>& last_checkpoint() const { return saves_.last_checkpoint(); }
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
  /// Counts a loss for divergence.detector, where it looks at such. Local; the same on all ranks.
  void watch(DivergenceLoss of, double loss);
  /// Ends a run that has diverged: saves first if divergence.action says so. Collective over the world. Throws
  /// AgreedError(numerics).
  [[noreturn]] void end_diverged();
  void save(AfterSave after);
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
  CadenceClock log_clock_, eval_clock_;
  Schedule schedule_;
  std::optional<RowLoss> loss_of_user_;  // of steps
  RunJournal journal_;
  Callbacks callbacks_;
  lockstep_facts facts_{};        // that callbacks are told
  std::int64_t epoch_told_ = -1;  // whose begin they know of
  RunEvaluations evaluations_;
  RunSaves saves_;
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
  bool diverged_ = false;                       // as the last loss that was counted says
  std::optional<StopChannels::Change> change_;  // that the control file has asked this rank for, until it is made
};

}  // namespace lockstep
