#include "train/promotions.hpp"

#include "base/text.hpp"
#include "checkpoint/commit.hpp"
#include "comm/together.hpp"

#include <chrono>
#include <thread>

namespace lockstep {

Promotions::Promotions(const Parts& parts) : parts_(parts), promoter_(parts.session.world()) {
  const std::vector<std::int64_t> steps =
      unpromoted_steps(parts_.session.world(), *parts_.files.local_tier(), parts_.files.folder());
  pending_.assign(steps.begin(), steps.end());
}

void Promotions::add(std::int64_t step) {
  if (awaits_another_) pending_.clear();
  awaits_another_ = false;
  pending_.push_back(step);
}

bool Promotions::begin_next(std::int64_t now) {
  if (pending_.empty() || awaits_another_) return false;
  const CheckpointOptions& options = parts_.config.checkpoint;
  promoter_.begin({.run = parts_.files.folder(),
                   .local = *parts_.files.local_tier(),
                   .step = pending_.front(),
                   .retention = parts_.retention,
                   .trash = parts_.files.run().trash(),
                   .local_trash = parts_.files.local()->trash(),
                   .read_back = options.read_back,
                   .patience_s = options.patience.value,
                   .enter = [this, now] {
                     parts_.session.enter(Phase::save_promote, now);
                     parts_.files.run().require_in_place();
                   }});
  return true;
}

void Promotions::carry_on(std::int64_t now) {
  try {
    if (!promoter_.under_way() && !begin_next(now)) return;
    const std::optional<PromotionReport> report = promoter_.advance();
    if (!report) return;
    pending_.pop_front();
    failed_in_a_row_ = 0;
    parts_.promoted(*report);
  } catch (const AgreedError& error) {  // the same on all ranks
    if (error.code() != ExitCode::storage) throw;
    failed(error, now);
  }
}

void Promotions::failed(const AgreedError& error, std::int64_t now) {
  const std::int64_t step = pending_.front();
  const bool is_newest = pending_.size() == 1;
  const std::int64_t most = parts_.config.checkpoint.max_failures;
  ++failed_in_a_row_;
  const std::string stays = fmt::format("step {} stays in {}", step, parts_.files.local()->path().string());
  if ((finishing_ && is_newest) || failed_in_a_row_ >= most)
    throw AgreedError(
        Error(ExitCode::storage,
              failed_in_a_row_ >= most
                  ? fmt::format("{} (failed promotions in a row: {}, checkpoint.max_failures is {})", error.what(),
                                failed_in_a_row_, most)
                  : std::string(error.what()),
              stays + ": make room or mend the storage, and start the same command again on the same nodes"),
        error.owner());
  if (is_newest)
    awaits_another_ = true;
  else
    pending_.pop_front();
  parts_.journal.warn({.step = now,
                       .name = "promotion_failed",
                       .message = fmt::format("{}\n  {}; training goes on, {}", error.what(), stays,
                                              is_newest ? "the next attempt follows the next save or the last step"
                                                        : "the next newer one is promoted")},
                      error.owner());
}

void Promotions::settle(std::int64_t now) {
  while (promoter_.under_way()) {
    carry_on(now);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Promotions::drop_before(std::int64_t step) {
  std::erase_if(pending_, [&](std::int64_t pending) { return pending < step; });
  awaits_another_ = false;
  RunFolder& local = *parts_.files.local();
  if (local.trash() == nullptr) return;
  std::vector<std::string> problems;
  attempt(problems, [&] {
    std::vector<std::int64_t> older;
    for (const CheckpointEntry& entry : list_checkpoints(local.path()))
      if (entry.step < step) older.push_back(entry.step);
    remove_steps(local.path(), older, problems);
  });
  clear_away(local.path(), local.trash(), problems);
  if (!problems.empty())
    parts_.journal.say(
        {.step = step,
         .name = "local_tier_not_tidied",
         .message = fmt::format("older checkpoints stay in {}: {}", local.path().string(), join(problems, "; "))},
        parts_.session.world().rank());
}

bool Promotions::asked_to_stop_now() const {
  const auto level = static_cast<std::int64_t>(parts_.session.stop_level());
  return parts_.session.world().all_reduce(level, Reduce::max) >= static_cast<std::int64_t>(StopLevel::now);
}

// The deadline of the phase counts from the last byte that any rank has copied.
void Promotions::finish(std::int64_t now) {
  finishing_ = true;
  awaits_another_ = false;
  std::int64_t copied = 0;
  while (!pending_.empty()) {
    carry_on(now);
    if (asked_to_stop_now()) {
      parts_.journal.warn({.step = now,
                           .name = "not_promoted",
                           .message = fmt::format("asked to stop a second time: step {} is in {} alone, from where "
                                                  "the same command goes on on the same nodes",
                                                  pending_.back(), parts_.files.local()->path().string())});
      return;
    }
    const auto mine = static_cast<std::int64_t>(promoter_.copied_bytes());
    const std::int64_t all = parts_.session.world().all_reduce(mine, Reduce::sum);
    if (all != copied)
      together(parts_.session.world(), "promoting", [&] { parts_.session.enter(Phase::save_promote, now); });
    copied = all;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace lockstep
