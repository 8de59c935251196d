// The reports of a run during training: records, log lines and progress. Rank 0 writes them, but a warning is logged by
// the rank that it concerns. The journal decides nothing, communicates nothing, and never fails a run. The sinks of
// records: report/recorder.hpp.
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
#include "train/run_totals.hpp"
#include "train/step_profile.hpp"
#include "train/train_plan.hpp"
#include "train/train_state.hpp"

#include <memory>

namespace lockstep {

/// Returns the settings of the meter of a run. Pure.
Meter::Settings meter_settings(const TrainConfig& config, const TrainPlan& plan);

class RunJournal {
 public:
  /// `rank` is this process in the world, `start` the state in which it starts, `began_s` monotonic_seconds() at that
  /// time; all other arguments must outlive the journal.
  RunJournal(const TrainConfig& config, const TrainPlan& plan, Output& output, RunFiles& files, int rank,
             const TrainState& start, double began_s);
  ~RunJournal();
  RunJournal(const RunJournal&) = delete;
  RunJournal& operator=(const RunJournal&) = delete;

  // All functions are Local.
  /// Counts a step that has ended: its samples and labels for the speed, with the wait for its batch, and its loss for
  /// the detection of spikes.
  void count(const TrainState& now, const StepOutcome& outcome, std::int64_t samples, std::int64_t valid_tokens,
             double data_wait_s);
  /// Excludes time outside of steps: evaluation, saving.
  void exclude(double seconds) { meter_.exclude(seconds); }
  /// Writes the record of a step, and progress. `fill` is the share of positions in the step's rows whose labels count.
  void step(const TrainState& now, const StepOutcome& outcome, const StepOrder& order, double fill);
  void statistics(const StatisticsRecord& record);
  void evaluation(const EvalRecord& record);
  /// Writes the record of a save. `waves` is the number of parts in which the state was copied for a save in the
  /// background; 0: the save was synchronous.
  void saved(const SaveReport& report, double seconds, int waves);
  /// Reports that a checkpoint of the local tier was promoted to the run folder.
  void promoted(const PromotionReport& report);
  void profiled(const Profile& profile);
  struct Summaries {
    SummaryRecord start;
    SummaryRecord run;  // its time, samples, losses and speeds are of all starts
  };
  /// Returns `facts` with everything that the journal counts: time, speeds, losses, progress.
  Summaries sum_up(const TrainState& now, SummaryRecord facts) const;
  /// Returns the work of all starts so far.
  RunTotals totals() const { return before_ + totals_of_start(); }
  /// Returns the positions of the rows trained on, as the plan counts them: sequence_length for each sample.
  std::int64_t positions() const { return (before_.samples + meter_.samples()) * config_.data.sequence_length; }
  /// Writes an event record.
  void event(const EventRecord& event);
  /// Writes an event record and a log line.
  void tell(const EventRecord& event);
  /// Logs a warning on rank `owner`.
  void say(const EventRecord& event, int owner = 0);
  /// Writes an event record and logs a warning.
  void warn(const EventRecord& event, int owner = 0);

 private:
  void tell_step(const TrainState& now, const StepOutcome& outcome, const StepOrder& order,
                 const Meter::Reading& reading);
  double epoch_of(const TrainState& now) const;
  RunTotals totals_of_start() const;
  void put(const RunTotals& totals, SummaryRecord& record) const;
  void look_for_spike(const TrainState& now, double loss);

  const TrainConfig& config_;
  const TrainPlan& plan_;
  Output& output_;
  RunFiles& files_;
  int rank_;
  RunTotals before_;  // of the starts before this one
  double began_s_;
  Meter meter_;
  LossWindow recent_losses_;  // of this process group
  double loss_sum_ = 0;       // over its steps that were not skipped
  std::int64_t losses_ = 0;
  std::int64_t first_step_ = 0;         // first step of this process group; 0: none so far
  std::unique_ptr<Progress> progress_;  // on rank 0
};

}  // namespace lockstep
