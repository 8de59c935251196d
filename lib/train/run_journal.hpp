// What a run says of itself while it trains: records, log lines and progress. Rank 0 speaks, but a warning is logged by
// the rank that it is about. Nothing here decides or communicates, and nothing here fails a run. Where records go:
// report/recorder.hpp.
#pragma once

#include "app/output.hpp"
#include "checkpoint/promote.hpp"
#include "checkpoint/save.hpp"
#include "config/train_config.hpp"
#include "engine/engine.hpp"
#include "report/progress.hpp"
#include "train/loss_window.hpp"
#include "train/meter.hpp"
#include "train/run_files.hpp"
#include "train/step_profile.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <memory>

namespace lockstep {

class RunJournal {
 public:
  /// Of a process that is `rank` in the world; all else outlives the journal.
  RunJournal(const TrainConfig& config, const TrainPlan& plan, Output& output, RunFiles& files, int rank);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  // All of them are Local.
  /// A step has ended, which waited so long for a batch: its samples and labels count for the speed, and its loss for
  /// what a spike is.
  void count(const TrainState& now, const StepOutcome& outcome, std::int64_t samples, std::int64_t valid_tokens,
             double data_wait_s);
  /// Time that is no step's: evaluation, saving.
  void exclude(double seconds) { meter_.exclude(seconds); }
  /// The record of a step, and progress. `fill`: labels that count, of the positions of its rows.
  void step(const TrainState& now, const StepOutcome& outcome, const StepOrder& order, double fill);
  void statistics(const StatisticsRecord& record);
  void evaluation(const EvalRecord& record);
  /// `waves`: the parts in which the state was copied for a save in the background; 0: it was waited for.
  void saved(const SaveReport& report, double seconds, int waves);
  /// A checkpoint of the local tier is one of the run now.
  void promoted(const PromotionReport& report);
  void profiled(const Profile& profile);
  /// What the run came to, as far as it is counted here: speeds, losses, how far it is.
  void sum_up(const TrainState& now, SummaryRecord& record) const;
  /// An event record.
  void event(const EventRecord& event);
  /// An event record and a log line.
  void tell(const EventRecord& event);
  /// A warning, which rank `owner` logs.
  void say(const EventRecord& event, int owner = 0);
  /// Both.
  void warn(const EventRecord& event, int owner = 0);

 private:
  void tell_step(const TrainState& now, const StepOutcome& outcome, const StepOrder& order,
                 const Meter::Reading& reading);
  double epoch_of(const TrainState& now) const;
  void look_for_spike(const TrainState& now, double loss);

  const TrainConfig& config_;
  const TrainPlan& plan_;
  Output& output_;
  RunFiles& files_;
  int rank_;
  Meter meter_;
  LossWindow recent_losses_;  // of this process group
  double loss_sum_ = 0;       // of its steps that were not skipped
  std::int64_t losses_ = 0;
  std::int64_t first_step_ = 0;         // that it made; 0: none so far
  std::unique_ptr<Progress> progress_;  // on rank 0
};

}  // namespace lockstep
