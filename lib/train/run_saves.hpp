// The saves of a run: what each is made of, those that go on in the background or through a local tier, and what
// becomes of one that fails. What one save does: checkpoint/save.hpp.
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
  /// `tell` hears of the folder of each checkpoint. All of it outlives this. Collective over the world.
  RunSaves(const LoopParts& parts, RunJournal& journal, StopChannels& stop, const RunEvaluations& evaluations,
           std::function<void(const std::string&)> tell);

  /// Takes the memory of saves in the background, so that what is lacking is missed now, not when the first one is due.
  void make_ready();
  /// Saves what the run is now, or begins to, unless that is done. `after` says what follows. What it rests on is
  /// verified first. Collective over the world. Throws AgreedError: of code storage where this failure ends the run.
  void save(AfterSave after);
  /// Goes on with a save in the background, if one is under way, and with promotions, as far as all ranks have come.
  /// Collective over the world. Throws as save().
  void carry_on(AfterSave after);
  /// Waits for the save that is under way. Collective over the world. Throws as save().
  void finish(AfterSave after);
  /// The same where the run ends with a failure, which stays the one explanation. Collective over the world.
  void finish_of_failed_run();
  /// What an end waits for: all that was begun, with these promotions. Returns whether nothing is left to promote.
  /// Collective over the world. Throws as save().
  bool end(Promotions::AtEnd promotions);

  /// Whether one is due by time, as this rank counts it. Local.
  bool due(double now_s) const { return clock_.due(now_s); }
  /// How often they are asked for has changed. Local.
  void follow_cadence() { clock_.follow(parts_.config.checkpoint); }
  /// Whether one that the local tier took in the background has failed: one around it is to take its place. Local; the
  /// same on all ranks.
  bool is_lost() const { return is_lost_; }
  /// The step of the newest checkpoint; 0: there is none. Local.
  std::int64_t saved_step() const { return saved_step_; }
  /// The folder of the last checkpoint of this process group. Local.
  const std::optional<std::string>& last_checkpoint() const { return last_checkpoint_; }

 private:
  /// What checkpoint.components says of what a run has. Local.
  std::vector<Component> chosen_components() const;
  /// What a checkpoint of now is made of. Collective over the world.
  std::vector<Component> components_now();
  /// The same, of which ranks that should hold the same have become of one mind, as checkpoint.on_difference says; a
  /// save compares what it does not. Collective over the world. Throws AgreedError(verdict).
  std::vector<Component> settled_components();
  /// Waits for promotions that are too far behind. Collective over the world. Throws as save().
  void keep_up();
  /// A save that does not go through the local tier, which could not take it. Collective over the world.
  SaveReport save_to_run(const std::vector<Component>& components);
  void advance(bool to_the_end, AfterSave after);
  void saved(const SaveReport& report, double stall_s, int waves);
  bool in_background() const { return parts_.plan.snapshot_limit.has_value(); }
  std::uint64_t snapshot_memory() const;  // bytes of a rank's copy at most; 0: as many as it takes
  SaveRequest request() const;
  SaveRequest request_for(RunFolder& folder) const;
  /// What a save of now compares at Validation::rolling: it follows from the step, so that a resume goes on in turn.
  RollingShare share_of_now() const;
  /// `folder`, which may be null, is the one that is saved to.
  void enter(Phase phase, const RunFolder* folder) const;
  AgreedError reason_of(const AgreedError& error) const;
  void tell_failure(const AgreedError& error, std::int64_t step, AfterSave after);
  void tell_local_failure(const AgreedError& error, std::int64_t step);

  LoopParts parts_;
  RunJournal& journal_;
  StopChannels& stop_;
  const RunEvaluations& evaluations_;
  std::function<void(const std::string&)> tell_;
  Saver saver_;                        // to the local tier, if there is one
  std::optional<Saver> saver_to_run_;  // around it
  SaveClock clock_;
  std::int64_t saved_step_;
  std::int64_t begun_step_ = -1;  // of the save that was begun last in the background
  double last_save_s_ = 0;
  double longest_wait_s_ = 0;  // of a save for promotions
  bool is_lost_ = false;
  FailedSaves failed_;
  std::optional<Promotions> promotions_;  // where there is a local tier
  std::optional<std::string> last_checkpoint_;
};

}  // namespace lockstep
