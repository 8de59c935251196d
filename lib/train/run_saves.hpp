// The saves of a run: chooses the components, continues saves in the background or through a local tier, and decides
// how the run continues after a failed save. A single save: checkpoint/save.hpp.
#pragma once

#include "checkpoint/save.hpp"
#include "comm/failure.hpp"
#include "comm/stop.hpp"
#include "store/component.hpp"
#include "train/failed_saves.hpp"
#include "train/loop_parts.hpp"
#include "train/promotions.hpp"
#include "train/run_evaluations.hpp"
#include "train/run_journal.hpp"
#include "train/save_clock.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class RunSaves {
 public:
  /// Calls `tell` with the folder of each checkpoint. All arguments must outlive this object. Collective over the
  /// world.
  RunSaves(const LoopParts& parts, RunJournal& journal, StopChannels& stop, const RunEvaluations& evaluations,
           std::function<void(const std::string&)> tell);

  /// Allocates the memory of saves in the background, so that a shortage shows at the start and not at the first save.
  void make_ready();
  /// Saves the present state of the run, or begins to, unless that is done already. `after` says how the run continues.
  /// Verifies the data in use first. Collective over the world. Throws AgreedError, with code storage if this failure
  /// ends the run.
  void save(AfterSave after);
  /// Saves the state after the last step if no checkpoint has it, for a run whose data cannot be read any more. A save
  /// that fails is a warning. Collective.
  void save_of_failed_run();
  /// Continues a save in the background, if one is under way, and promotions, as far as all ranks have got. Collective
  /// over the world. Throws as save().
  void carry_on(AfterSave after);
  /// Waits for the save that is under way. Collective over the world. Throws as save().
  void finish(AfterSave after);
  /// Waits for the save when the run ends with a failure; that failure stays the only explanation. Collective over the
  /// world.
  void finish_of_failed_run();
  /// Finishes all saves and the given promotions at the end of a run. Returns whether nothing is left to promote.
  /// Collective over the world. Throws as save().
  bool end(Promotions::AtEnd promotions);

  /// Returns whether a save is due by time on this rank. Local.
  bool due(double now_s) const { return clock_.due(now_s); }
  /// Applies a changed cadence of saves. Local.
  void follow_cadence() { clock_.follow(parts_.config.checkpoint); }
  /// Returns whether a background save into the local tier has failed; a save into the run folder is to replace it.
  /// Local; equal on all ranks.
  bool is_lost() const { return is_lost_; }
  /// Returns the step of the newest checkpoint; 0: there is none. Local.
  std::int64_t saved_step() const { return saved_step_; }
  /// Returns the folder of the last checkpoint of this process group. Local.
  const std::optional<std::string>& last_checkpoint() const { return last_checkpoint_; }

 private:
  /// Returns the run's components that checkpoint.components selects. Local.
  std::vector<Component> chosen_components() const;
  /// Returns the components of a checkpoint of the present state. Collective over the world.
  std::vector<Component> components_now();
  /// Returns the components after comparing or repairing replicas as checkpoint.on_difference says; with `fail` the
  /// save compares them. Collective over the world. Throws AgreedError(verdict).
  std::vector<Component> settled_components();
  /// Waits if too many promotions are pending. Collective over the world. Throws as save().
  void keep_up();
  /// Saves into the run folder because the local tier has failed. Collective over the world.
  SaveReport save_to_run(const std::vector<Component>& components);
  void advance(bool to_the_end, AfterSave after);
  void saved(const SaveReport& report, double stall_s, int waves);
  bool in_background() const { return parts_.plan.snapshot_limit.has_value(); }
  std::uint64_t snapshot_memory() const;  // most bytes of a rank's copy; 0: no limit
  SaveRequest request() const;
  SaveRequest request_for(RunFolder& folder) const;
  /// Returns the share that a save of the present step compares at Validation::rolling. It follows from the step, so a
  /// resumed run continues in turn.
  RollingShare share_of_now() const;
  /// Enters a phase of a save into `folder`, which may be null.
  void enter(Phase phase, const RunFolder* folder) const;
  AgreedError reason_of(const AgreedError& error) const;
  void tell_failure(const AgreedError& error, std::int64_t step, AfterSave after);
  void tell_local_failure(const AgreedError& error, std::int64_t step);

  LoopParts parts_;
  RunJournal& journal_;
  StopChannels& stop_;
  const RunEvaluations& evaluations_;
  std::function<void(const std::string&)> tell_;
  Saver saver_;                        // saves into the local tier if there is one
  std::optional<Saver> saver_to_run_;  // saves into the run folder if the local tier has failed
  SaveClock clock_;
  std::int64_t saved_step_;
  std::int64_t begun_step_ = -1;  // step of the last save begun in the background
  double last_save_s_ = 0;
  double longest_wait_s_ = 0;  // longest wait of a save for promotions
  bool is_lost_ = false;
  FailedSaves failed_;
  std::optional<Promotions> promotions_;  // set if there is a local tier
  std::optional<std::string> last_checkpoint_;
};

}  // namespace lockstep
