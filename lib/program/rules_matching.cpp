// Collectives across ranks. Ranks whose groups stay within their class do the same at the same time, so there is
// nothing to match; otherwise all ranks are walked together: whoever can go on does, until all have ended or nobody
// can.
#include "program/rank_walk.hpp"
#include "program/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::rules {

namespace {

class Walk {
 public:
  explicit Walk(const StepProgram& program) : program_(program) {
    for (Rank rank = 0; rank < world_size(program.mesh); ++rank) states_.emplace_back(program.of(rank));
  }

  void run() {
    const auto ranks = static_cast<Rank>(states_.size());
    walk_ranks(ranks, [this](Rank rank, std::size_t lane) { return advance(rank, lane); });
    for (Rank rank = 0; rank < ranks; ++rank)
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        if (const int stuck = state(rank).progress.head(lane); stuck >= 0 && ready(state(rank), stuck))
          throw Fault{rank, stuck, why_stuck(rank, stuck)};
  }

 private:
  struct State {
    RankProgress progress;
    std::vector<int> collectives;  // positions, in order of issue over all lanes
    std::size_t next_collective = 0;

    explicit State(const std::vector<Action>& actions) : progress(actions) {
      for (std::size_t i = 0; i < actions.size(); ++i)
        if (is_collective(actions[i].op)) collectives.push_back(static_cast<int>(i));
    }
  };

  State& state(Rank rank) { return states_[static_cast<std::size_t>(rank)]; }

  /// Everything on this rank allows the action to start: its waits, and the collectives issued before it.
  static bool ready(const State& state, int position) {
    const bool collective = is_collective(state.progress.action(position).op);
    if (collective && state.collectives[state.next_collective] != position) return false;
    return state.progress.waits_have_ended(position);
  }

  static void end(State& state, int position) {
    state.progress.end(position);
    if (is_collective(state.progress.action(position).op)) ++state.next_collective;
  }

  bool advance(Rank rank, std::size_t lane) {
    const int position = state(rank).progress.head(lane);
    if (position < 0 || !ready(state(rank), position)) return false;
    const Action& action = state(rank).progress.action(position);
    if (!is_collective(action.op)) {
      end(state(rank), position);
      return true;
    }
    const std::vector<Rank> members = group_along(program_.mesh, rank, action.group);
    for (const Rank member : members) {
      const int theirs = state(member).progress.head(lane);
      if (theirs < 0 || !ready(state(member), theirs)) return false;
      const Action& other = state(member).progress.action(theirs);
      if (other.group != action.group) return false;
      if (other.op != action.op || other.subject != action.subject)  // then the payload is equal too: check_step
        throw Fault{rank, position,
                    fmt::format("meets action {} of rank {}: {}", theirs, member, to_text(program_, other))};
    }
    for (const Rank member : members) end(state(member), state(member).progress.head(lane));
    return true;
  }

  std::string why_stuck(Rank rank, int position) {
    const Action& action = state(rank).progress.action(position);
    for (const Rank member : group_along(program_.mesh, rank, action.group)) {
      const int theirs = state(member).progress.head(static_cast<std::size_t>(action.lane));
      if (theirs < 0) return fmt::format("waits for ever for rank {}, which has ended", member);
      const Action& other = state(member).progress.action(theirs);
      if (other.group != action.group || !ready(state(member), theirs))
        return fmt::format("waits for ever for rank {}, which is at action {} ({})", member, theirs,
                           to_text(program_, other));
    }
    return "waits for ever";
  }

  const StepProgram& program_;
  std::vector<State> states_;
};

/// Whether every collective of every rank is among ranks with the same list.
bool classes_keep_to_themselves(const StepProgram& program) {
  if (program.classes.size() == 1) return true;
  for (const RankClass& ranks : program.classes) {
    std::vector<std::vector<AxisName>> groups;
    for (const Action& action : ranks.actions)
      if (is_collective(action.op) && std::find(groups.begin(), groups.end(), action.group) == groups.end())
        groups.push_back(action.group);
    for (const Rank rank : ranks.ranks)
      for (const auto& group : groups)
        for (const Rank member : group_along(program.mesh, rank, group))
          if (!std::binary_search(ranks.ranks.begin(), ranks.ranks.end(), member)) return false;
  }
  return true;
}

}  // namespace

void check_matching(const StepProgram& program) {
  if (!classes_keep_to_themselves(program)) Walk(program).run();
}

}  // namespace lockstep::rules
