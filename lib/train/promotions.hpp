// Checkpoints of the local tier are promoted to the folder of the run one after the other, behind training, in the
// order of their steps. What one promotion does: checkpoint/promote.hpp.
#pragma once

#include "checkpoint/promote.hpp"
#include "comm/failure.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "train/run_files.hpp"
#include "train/run_journal.hpp"

#include <cstdint>
#include <deque>
#include <functional>

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

  /// A save of this step has ended in the local tier, so an older one whose promotion failed is not tried again. Local.
  void add(std::int64_t step);
  /// Goes on behind step `now` as far as all ranks have come. A failure is a warning and leaves the checkpoint to the
  /// local tier. Collective over the world. Throws AgreedError(storage) after checkpoint.max_failures in a row.
  void carry_on(std::int64_t now);
  /// Waits for the one that is under way, as a save into the folder of the run has to. Collective. Throws as carry_on.
  void settle(std::int64_t now);
  /// The folder of the run has a checkpoint of this step, so older ones are needed neither there nor in the local tier,
  /// which has room again. None is under way. Local.
  void drop_before(std::int64_t step);
  /// Waits until all are promoted, or the job was asked to stop now. Collective. Throws AgreedError(storage) where the
  /// newest is not.
  void finish(std::int64_t now);

 private:
  bool begin_next(std::int64_t now);
  void failed(const AgreedError& error, std::int64_t now);
  bool asked_to_stop_now() const;

  Parts parts_;
  Promoter promoter_;
  std::deque<std::int64_t> pending_;  // steps, with the one that is under way
  bool awaits_another_ = false;       // the only one has failed
  bool finishing_ = false;
  std::int64_t failed_in_a_row_ = 0;
};

}  // namespace lockstep
