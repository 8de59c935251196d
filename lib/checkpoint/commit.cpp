#include "checkpoint/commit.hpp"

#include "store/run_directory.hpp"
#include "store/staging.hpp"

#include <algorithm>

namespace lockstep {

void empty_trash_now(const Path& run, TrashCollector* trash) {
  if (trash != nullptr)
    trash->empty();
  else
    empty_trash(run);
}

Retention without_one(Retention retention) {
  retention.keep_last = std::max<std::int64_t>(1, retention.keep_last - 1);
  return retention;
}

bool clear_room(const Path& run, std::uint64_t bytes, bool is_scarce, TrashCollector* trash) {
  const Path folder = checkpoints_folder(run);
  make_folder(folder);
  collect_leftovers(run);
  const auto enough = [&] { return !is_scarce && has_room(folder, bytes); };
  if (enough()) return true;
  empty_trash_now(run, trash);
  return enough();
}

std::vector<std::int64_t> make_room(const Path& run, std::uint64_t bytes, bool is_scarce, const Retention& retention,
                                    TrashCollector* trash) {
  std::vector<std::int64_t> pruned;
  try {
    if (clear_room(run, bytes, is_scarce, trash)) return pruned;
    pruned = prune(run, without_one(retention)).steps;
    empty_trash_now(run, trash);
  } catch (const Error&) {  // the save says what it lacks
  }
  return pruned;
}

void remove_steps(const Path& run, const std::vector<std::int64_t>& steps, std::vector<std::string>& problems) {
  for (const std::int64_t step : steps)
    attempt(problems, [&] {
      const Path victim = checkpoint_folder(run, step);
      if (is_there(victim)) publish_rename(victim, trash_name(victim));
    });
}

void clear_away(const Path& run, TrashCollector* trash, std::vector<std::string>& problems) {
  attempt(problems, [&] { collect_leftovers(run); });
  if (trash == nullptr) {
    attempt(problems, [&] { empty_trash(run); });
  } else {
    trash->wake();
    if (const std::string problem = trash->problem(); !problem.empty()) problems.push_back(problem);
  }
}

Committed commit_staged(const Path& staging, const Path& run, std::int64_t step, const Retention& retention,
                        TrashCollector* trash) {
  replace_checkpoint(staging, checkpoint_folder(run, step));
  Committed done;
  Pruned pruned;
  attempt(done.problems, [&] {
    const std::vector<CheckpointEntry> all = list_checkpoints(run);  // what is promoted may be older than the newest
    write_latest(run, all.empty() ? step : std::max(step, all.back().step));
  });
  attempt(done.problems, [&] { pruned = prune(run, retention); });
  if (!pruned.problem.empty()) done.problems.push_back(pruned.problem);
  done.pruned = std::move(pruned.steps);
  clear_away(run, trash, done.problems);
  return done;
}

}  // namespace lockstep
