#include "train/promotions.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "checkpoint/commit.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_verify.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

constexpr std::int64_t usual_unpromoted = 8;

std::string steps_text(const std::vector<std::int64_t>& steps) {
  std::vector<std::string> words;
  for (const std::int64_t step : steps) words.push_back(std::to_string(step));
  return (steps.size() == 1 ? "step " : "steps ") + join(words, ", ");
}

}  // namespace

Promotions::Promotions(const Parts& parts) : parts_(parts), promoter_(parts.session.world()) {
  Communicator& world = parts_.session.world();
  const LocalTier tier = *parts_.files.local_tier();
  const std::vector<std::int64_t> steps = unpromoted_steps(world, tier, parts_.files.folder());
  const std::string newest_of_run = run_on_rank0(world, "list the checkpoints of the run", [&] {
    for (const CheckpointEntry& entry : list_checkpoints(parts_.files.folder()))
      rated_[entry.step] =
          rate(entry, judge_checkpoint(entry.path, VerifyLevel::sizes).verdict, parts_.retention.best_by);
    return std::to_string(rated_.empty() ? -1 : rated_.rbegin()->first);
  });
  newest_ = std::stoll(newest_of_run);
  for (const std::int64_t step : steps) {
    rate_and_add(step, tier.folder);
    if (step > std::stoll(newest_of_run)) newer_.insert(step);
  }
  if (!waiting_.empty()) drop_superseded(newest_);
}

void Promotions::rate_and_add(std::int64_t step, const Path& folder) {
  if (parts_.session.world().rank() == 0)
    rated_[step] = rate({checkpoint_folder(folder, step), step}, Verdict::sound, parts_.retention.best_by);
  waiting_[step] = 0;
  newest_ = std::max(newest_, step);
}

void Promotions::add(std::int64_t step) {
  awaits_another_ = false;
  newer_.insert(step);
  rate_and_add(step, parts_.files.local()->path());
  drop_superseded(step);
}

void Promotions::add_to_run(std::int64_t step, const std::vector<std::int64_t>& pruned) {
  awaits_another_ = false;
  rate_and_add(step, parts_.files.folder());
  in_run(step, pruned);
  drop_superseded(step);
  tidy_tier(step);
}

void Promotions::in_run(std::int64_t step, const std::vector<std::int64_t>& pruned) {
  waiting_.erase(step);
  newer_.erase(newer_.begin(), newer_.upper_bound(step));
  for (const std::int64_t gone : pruned)
    if (!waiting_.contains(gone)) rated_.erase(gone);
  if (waiting_.empty()) told_behind_ = false;
}

// Retention would remove them from the folder of the run at once. One that is under way is promoted all the same: where
// storage is slow a newer one always comes before it is done.
void Promotions::drop_superseded(std::int64_t now) {
  const std::string told = run_on_rank0(parts_.session.world(), "choose the checkpoints to promote", [&] {
    std::vector<Rated> all;
    for (const auto& [step, rated] : rated_) all.push_back(rated);
    Json steps = Json::array();
    for (const CheckpointEntry& entry : prunable(comparable(all), parts_.retention))
      if (waiting_.contains(entry.step) && !(promoter_.under_way() && promoter_.step() == entry.step))
        steps.push_back(entry.step);
    return to_text(steps);
  });
  std::vector<std::int64_t> dropped;
  for (const Json& step : parse_json(told, "message of rank 0")) dropped.push_back(step);
  if (dropped.empty()) return;
  for (const std::int64_t step : dropped) {
    waiting_.erase(step);
    rated_.erase(step);
  }
  parts_.journal.event({.step = now,
                        .name = "promotion_superseded",
                        .message = fmt::format("{} will not be promoted from {}: newer checkpoints replace it",
                                               steps_text(dropped), parts_.files.local()->path().string())});
  tidy_tier(now);
}

// Local, on keepers of the tier's storage.
void Promotions::tidy_tier(std::int64_t now) {
  RunFolder& local = *parts_.files.local();
  if (local.trash() == nullptr) return;
  std::vector<std::string> problems;
  attempt(problems, [&] {
    std::vector<std::int64_t> steps;
    for (const CheckpointEntry& entry : list_checkpoints(local.path()))
      if (entry.step < newest_ && !waiting_.contains(entry.step)) steps.push_back(entry.step);
    remove_steps(local.path(), steps, problems);
  });
  local.trash()->wake();
  if (const std::string problem = local.trash()->problem(); !problem.empty()) problems.push_back(problem);
  if (problems.empty()) return;
  parts_.journal.say({.step = now,
                      .name = "local_tier_not_tidied",
                      .message = fmt::format("cannot remove older checkpoints in {}: {}", local.path().string(),
                                             join(problems, "; "))},
                     parts_.session.world().rank());
}

std::vector<std::int64_t> Promotions::waiting_steps() const {
  std::vector<std::int64_t> steps;
  for (const auto& [step, failures] : waiting_) steps.push_back(step);
  return steps;
}

bool Promotions::begin_next(std::int64_t now) {
  if (waiting_.empty() || awaits_another_) return false;
  const CheckpointOptions& options = parts_.config.checkpoint;
  std::vector<std::int64_t> others = waiting_steps();
  attempted_ = others.back();
  others.pop_back();
  promoter_.begin({.run = parts_.files.folder(),
                   .local = *parts_.files.local_tier(),
                   .step = attempted_,
                   .waiting = std::move(others),
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
    failed_in_a_row_ = 0;
    in_run(report->step, report->pruned);
    parts_.promoted(*report);
  } catch (const AgreedError& error) {  // the same on all ranks
    if (error.code() != ExitCode::storage) throw;
    failed(error, now);
  }
}

void Promotions::failed(const AgreedError& error, std::int64_t now) {
  const std::int64_t step = attempted_;
  const std::int64_t most = parts_.config.checkpoint.max_failures;
  ++failed_in_a_row_;
  const std::string stays = fmt::format("step {} stays in {}", step, parts_.files.local()->path().string());
  if ((finishing_ && step == newest_) || failed_in_a_row_ >= most)
    throw AgreedError(
        Error(ExitCode::storage,
              failed_in_a_row_ >= most
                  ? fmt::format("{} (failed promotions in a row: {}, checkpoint.max_failures is {})", error.what(),
                                failed_in_a_row_, most)
                  : std::string(error.what()),
              stays + ": free some space or repair the storage, and start the same command again on the same nodes"),
        error.owner());
  const bool given_up = finishing_ || ++waiting_[step] >= most;
  if (given_up) waiting_.erase(step);
  if (given_up) rated_.erase(step);
  awaits_another_ = !finishing_;
  parts_.journal.warn(
      {.step = now,
       .name = "promotion_failed",
       .message =
           fmt::format("{}\n  {}; {}{}", error.what(), stays, finishing_ ? "" : "training continues, ",
                       given_up ? "this job does not try again" : "next attempt after the next save or the last step")},
      error.owner());
}

// The deadline of the phase counts from the last byte that any rank has copied.
void Promotions::wait_while(const std::function<bool()>& goes_on, std::int64_t now) {
  std::int64_t copied = 0;
  while (goes_on()) {
    carry_on(now);
    const auto mine = static_cast<std::int64_t>(promoter_.copied_bytes());
    const std::int64_t all = parts_.session.world().all_reduce(mine, Reduce::sum);
    if (all != copied)
      together(parts_.session.world(), "promoting", [&] { parts_.session.enter(Phase::save_promote, now); });
    copied = all;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void Promotions::settle(std::int64_t now) {
  wait_while([this] { return promoter_.under_way(); }, now);
}

StopLevel Promotions::stop_level() const {
  const auto level = static_cast<std::int64_t>(parts_.session.stop_level());
  return static_cast<StopLevel>(parts_.session.world().all_reduce(level, Reduce::max));
}

void Promotions::keep_up(std::int64_t now) {
  const auto most = static_cast<std::size_t>(parts_.config.checkpoint.max_unpromoted.value_or(usual_unpromoted));
  if (behind() < most || awaits_another_) return;
  if (!std::exchange(told_behind_, true))
    parts_.journal.warn(
        {.step = now,
         .name = "promotion_behind",
         .message = fmt::format("{} in {} have not been promoted to {}, which is slow (checkpoint.max_unpromoted is "
                                "{}): training waits until it has caught up",
                                counted(static_cast<std::int64_t>(behind()), "save"),
                                parts_.files.local()->path().string(), parts_.files.folder().string(), most)});
  wait_while([&] { return behind() >= most && !awaits_another_ && stop_level() == StopLevel::none; }, now);
}

bool Promotions::finish(std::int64_t now, AtEnd which) {
  finishing_ = true;
  awaits_another_ = false;
  bool newest_only = which == AtEnd::newest;
  const auto goes_on = [&] {
    const StopLevel level = stop_level();
    newest_only = newest_only || level != StopLevel::none;
    if (level == StopLevel::now) return false;
    if (!newest_only) return !waiting_.empty();
    const bool older = promoter_.under_way() && promoter_.step() != newest_;
    return (older && !promoter_.break_off()) || newest_waits();
  };
  wait_while(goes_on, now);
  if (!waiting_.empty()) tell_left(now);
  return waiting_.empty();
}

void Promotions::tell_left(std::int64_t now) {
  const std::vector<std::int64_t> steps = waiting_steps();
  const std::string left = fmt::format("{} {} only in {}", steps_text(steps), steps.size() == 1 ? "is" : "are",
                                       parts_.files.local()->path().string());
  parts_.journal.warn(
      {.step = now,
       .name = "not_promoted",
       .message = newest_waits()
                      ? fmt::format(
                            "asked to stop a second time: {}; the same command resumes from it on the same nodes", left)
                      : fmt::format("asked to stop: {}; the next start on the same nodes promotes {}", left,
                                    steps.size() == 1 ? "it" : "them")});
}

}  // namespace lockstep
