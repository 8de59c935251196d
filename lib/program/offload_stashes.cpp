// Which stashes lie in host memory between forward and backward, and when they go and come.
#include "program/passes.hpp"
#include "program/rewriter.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace lockstep {

namespace {

bool computes_block(const Action& action) {
  return action.lane == Lane::compute && action.subject.kind == Subject::Kind::block;
}

}  // namespace

std::vector<StashLife> stash_lives(const std::vector<Action>& actions, const ModelPlan& plan) {
  std::map<std::pair<Subject, MicroBatch>, int> made;
  std::vector<StashLife> lives;
  int place = 0;
  for (const Action& action : actions) {
    if (!computes_block(action)) continue;
    const std::pair key{action.subject, action.micro_batch};
    if (action.op == Op::forward || action.op == Op::recompute) made[key] = place;
    if (action.op == Op::backward || action.op == Op::backward_input)
      lives.push_back({action.subject, action.micro_batch, made.at(key), place,
                       plan.blocks[static_cast<std::size_t>(action.subject.index)].stash_bytes});
    ++place;
  }
  return lives;
}

namespace {

/// What host memory has room for beside what lies there all run.
std::int64_t room_for_stashes(const std::vector<Action>& actions, const ModelPlan& plan, const OffloadOptions& options,
                              bool in_backward) {
  if (options.host_limit_bytes == 0) return std::numeric_limits<std::int64_t>::max();
  std::int64_t room = options.host_limit_bytes;
  for (const UnitPlan& unit : plan.units)
    if (std::ranges::any_of(actions, [&](const Action& action) { return uses(action, unit); }))
      room -= fetched_bytes(unit, host_part_of(unit, options, in_backward));
  return room;
}

/// Those that wait longest first, as long as all that are away at once have room.
std::vector<StashLife> chosen(std::vector<StashLife> lives, std::int64_t room) {
  std::ranges::stable_sort(lives,
                           [](const StashLife& a, const StashLife& b) { return a.used - a.made > b.used - b.made; });
  std::map<int, std::int64_t> away;  // before each place
  std::erase_if(lives, [&](const StashLife& life) {
    if (!life.worth_moving()) return true;
    for (int place = life.made + 1; place <= life.used; ++place)
      if (away[place] > room - life.bytes) return true;
    for (int place = life.made + 1; place <= life.used; ++place) away[place] += life.bytes;
    return false;
  });
  return lives;
}

/// Writes the list of one class with copies of these stashes.
class StashCopies {
 public:
  explicit StashCopies(const std::vector<StashLife>& moved) {
    for (const StashLife& life : moved) {
      by_made_[life.made] = &life;
      by_used_[life.used] = &life;
    }
  }

  std::vector<Action> list(const std::vector<Action>& actions) && {
    for (const Action& action : actions)
      if (computes_block(action))
        compute(action);
      else
        out_.keep(action);
    return std::move(out_).list();
  }

 private:
  void compute(const Action& action) {
    fetch(place_ + 1);
    Waits waits;  // for what is read now; for what went beside the block before: its memory is let go
    if (const auto fetched = fetched_.find(place_); fetched != fetched_.end()) waits.push_back(fetched->second);
    if (const auto gone = offloaded_.find(place_ - 2); gone != offloaded_.end()) waits.push_back(gone->second);
    const int position = out_.keep(action, waits);
    if (const auto found = by_made_.find(place_); found != by_made_.end())
      offloaded_[place_] = out_.add(make_copy(Op::offload_stash, action, found->second->bytes, {position}));
    ++place_;
  }

  /// What is read at this place comes while what is before it runs, in memory that was let go before that.
  void fetch(int place) {
    const auto found = by_used_.find(place);
    if (found == by_used_.end()) return;
    const StashLife& life = *found->second;
    fetched_[place] = out_.add(make_copy(Op::fetch_stash, make(Op::fetch_stash, life.block, life.micro_batch),
                                         life.bytes, after_compute(out_.so_far())));
  }

  std::map<int, const StashLife*> by_made_, by_used_;
  int place_ = 0;                           // of the next block
  std::map<int, int> offloaded_, fetched_;  // positions in the new list, by the place where it was made or is used
  Rewriter out_;
};

}  // namespace

StepProgram offload_stashes(const StepProgram& program, const ModelPlan& plan, const OffloadOptions& options,
                            const UpdateOptions& update) {
  if (!options.activations) return program;
  return rewritten(program, [&](const std::vector<Action>& actions) {
    const std::int64_t room = room_for_stashes(actions, plan, options, update.in_backward);
    const std::vector<StashLife> moved = chosen(stash_lives(actions, plan), room);
    return StashCopies(moved).list(actions);
  });
}

}  // namespace lockstep
