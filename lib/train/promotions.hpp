// Promotes checkpoints of the local tier to the run folder during training, one after the other: the newest first, then
// older ones that retention keeps. All others are removed from the tier. A single promotion: checkpoint/promote.hpp.
#pragma once

#include "checkpoint/promote.hpp"
#include "comm/failure.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "store/retention.hpp"
#include "train/run_files.hpp"
#include "train/run_journal.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace lockstep {

class Promotions {
 public:
  struct Parts {
    const TrainConfig& config;
    Session& session;
    RunFiles& files;  // with a local tier
    RunJournal& journal;
    Retention retention;
    std::function<void(const PromotionReport&)> promoted;  // called after each promotion. Local
  };
  /// All parts must outlive it. Finds checkpoints that earlier jobs left to promote. Collective over the world. Throws
  /// Error(storage).
  explicit Promotions(const Parts& parts);

  /// Adds a checkpoint that was saved in the local tier. Collective.
  void add(std::int64_t step);
  /// Records that the run folder has a new checkpoint of `step`, saved without the local tier, and that the checkpoints
  /// `pruned` were removed. No promotion may be under way. Collective.
  void add_to_run(std::int64_t step, const std::vector<std::int64_t>& pruned);
  /// Continues after step `now`, as far as all ranks have got. A failure is a warning, and the checkpoint stays in the
  /// local tier. Collective over the world. Throws AgreedError(storage) after checkpoint.max_failures in a row.
  void carry_on(std::int64_t now);
  /// Waits for the promotion that is under way, before a save into the run folder. Collective. Throws as carry_on.
  void settle(std::int64_t now);
  /// Waits until fewer than checkpoint.max_unpromoted saves wait for promotion. Returns earlier if the next attempt
  /// must follow another save, or if the job was asked to stop. Collective. Throws as carry_on.
  void keep_up(std::int64_t now);

  /// AtEnd says which promotions the end of a run waits for.
  enum class AtEnd { all, newest };
  /// Waits until all waiting checkpoints are promoted, or only the newest. After a stop request it waits only for the
  /// newest, after a second one for none. Returns whether none is waiting any more. Collective. Throws
  /// AgreedError(storage) if the newest is not promoted.
  bool finish(std::int64_t now, AtEnd which);

 private:
  std::size_t behind() const { return std::max(waiting_.size(), newer_.size()); }
  bool newest_waits() const { return waiting_.contains(newest_); }
  std::vector<std::int64_t> waiting_steps() const;
  StopLevel stop_level() const;
  bool begin_next(std::int64_t now);
  void failed(const AgreedError& error, std::int64_t now);
  void wait_while(const std::function<bool()>& goes_on, std::int64_t now);
  void rate_and_add(std::int64_t step, const Path& folder);
  void in_run(std::int64_t step, const std::vector<std::int64_t>& pruned);
  void drop_superseded(std::int64_t now);
  void tidy_tier(std::int64_t now);
  void tell_left(std::int64_t now);

  Parts parts_;
  Promoter promoter_;
  // failed attempts by step, including the one under way
  std::map<std::int64_t, std::int64_t> waiting_;
  std::set<std::int64_t> newer_;  // saves newer than all checkpoints of the run folder
  // on rank 0: waiting checkpoints and those of the run folder, as retention will see them
  std::map<std::int64_t, Rated> rated_;
  std::int64_t newest_ = -1;     // step of the newest checkpoint
  std::int64_t attempted_ = -1;  // step of the last promotion that was begun
  bool awaits_another_ = false;  // the last promotion has failed
  bool finishing_ = false;
  bool told_behind_ = false;
  std::int64_t failed_in_a_row_ = 0;
};

}  // namespace lockstep
