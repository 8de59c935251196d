// Checkpoints of the local tier are promoted to the folder of the run one after the other, behind training: the newest
// first, then the older ones that retention keeps. The others leave the tier. What one promotion does:
// checkpoint/promote.hpp.
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
    RunFiles& files;  // which have a local tier
    RunJournal& journal;
    Retention retention;
    std::function<void(const PromotionReport&)> promoted;  // called for each. Local
  };
  /// All of it outlives them. Finds what earlier jobs left to promote. Collective over the world. Throws
  /// Error(storage).
  explicit Promotions(const Parts& parts);

  /// A save of this step has ended in the local tier. Collective.
  void add(std::int64_t step);
  /// The folder of the run has a new checkpoint of this step, around the local tier; those of these steps went. None is
  /// under way. Collective.
  void add_to_run(std::int64_t step, const std::vector<std::int64_t>& retired);
  /// Goes on behind step `now` as far as all ranks have come. A failure is a warning and leaves the checkpoint to the
  /// local tier. Collective over the world. Throws AgreedError(storage) after checkpoint.max_failures in a row.
  void carry_on(std::int64_t now);
  /// Waits for the one that is under way, as a save into the folder of the run has to. Collective. Throws as carry_on.
  void settle(std::int64_t now);
  /// Waits until one more save leaves the folder of the run no further behind than checkpoint.max_unpromoted says, the
  /// next attempt has to follow another save, or the job was asked to stop. Collective. Throws as carry_on.
  void keep_up(std::int64_t now);

  /// AtEnd says what an end waits for.
  enum class AtEnd { all, newest };
  /// Waits until all checkpoints that wait are promoted, or only the newest: also where the job was asked to stop
  /// meanwhile, and for none if it was asked to stop now. Returns whether none waits any more. Collective. Throws
  /// AgreedError(storage) where the newest is not promoted.
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
  void in_run(std::int64_t step, const std::vector<std::int64_t>& retired);
  void drop_superseded(std::int64_t now);
  void tidy_tier(std::int64_t now);
  void tell_left(std::int64_t now);

  Parts parts_;
  Promoter promoter_;
  std::map<std::int64_t, std::int64_t> waiting_;  // failed attempts by step, with the one that is under way
  std::set<std::int64_t> newer_;                  // saves that are newer than all of the run
  std::map<std::int64_t, Rated> rated_;  // on rank 0: what waits and what the run has, as retention will see them
  std::int64_t newest_ = -1;             // step of the newest checkpoint
  std::int64_t attempted_ = -1;          // of the promotion that was begun last
  bool awaits_another_ = false;          // the last one has failed
  bool finishing_ = false;
  bool told_behind_ = false;
  std::int64_t failed_in_a_row_ = 0;
};

}  // namespace lockstep
