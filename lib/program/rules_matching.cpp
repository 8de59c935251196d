// Collectives across ranks. Ranks whose groups stay within their class do the same at the same time, so there is
// nothing to match; otherwise all ranks are walked together: whoever can go on does, until all have ended or nobody
// can.
#include "program/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep::rules {

namespace {

class Walk {
 public:
  explicit Walk(const StepProgram& program)
      : program_(program), states_(static_cast<std::size_t>(world_size(program.mesh))) {
    for (const RankClass& ranks : program.classes)
      for (const Rank rank : ranks.ranks) start(state(rank), ranks.actions);
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (Rank rank = 0; rank < static_cast<Rank>(states_.size()); ++rank)
        for (std::size_t lane = 0; lane < lane_count; ++lane)
          while (advance(rank, lane)) moved = true;
    }
    for (Rank rank = 0; rank < static_cast<Rank>(states_.size()); ++rank)
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        if (const int stuck = head(state(rank), lane); stuck >= 0 && ready(state(rank), stuck))
          throw Fault{rank, stuck, why_stuck(rank, stuck)};
  }

 private:
  struct State {
    const std::vector<Action>* actions = nullptr;
    std::array<std::vector<int>, lane_count> lanes;  // positions
    std::array<std::size_t, lane_count> next{};
    std::vector<bool> ended;
    std::vector<int> collectives;  // positions, in order of issue over all lanes
    std::size_t next_collective = 0;
  };

  State& state(Rank rank) { return states_[static_cast<std::size_t>(rank)]; }

  static void start(State& state, const std::vector<Action>& actions) {
    state.actions = &actions;
    state.ended.resize(actions.size());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      state.lanes[static_cast<std::size_t>(actions[i].lane)].push_back(static_cast<int>(i));
      if (is_collective(actions[i].op)) state.collectives.push_back(static_cast<int>(i));
    }
  }

  static int head(const State& state, std::size_t lane) {
    return state.next[lane] < state.lanes[lane].size() ? state.lanes[lane][state.next[lane]] : -1;
  }

  /// Everything on this rank allows the action to start: its waits, and the collectives issued before it.
  static bool ready(const State& state, int position) {
    const Action& action = (*state.actions)[static_cast<std::size_t>(position)];
    if (is_collective(action.op) && state.collectives[state.next_collective] != position) return false;
    return std::all_of(action.waits.begin(), action.waits.end(),
                       [&](int wait) { return state.ended[static_cast<std::size_t>(wait)]; });
  }

  static void end(State& state, int position) {
    const Action& action = (*state.actions)[static_cast<std::size_t>(position)];
    ++state.next[static_cast<std::size_t>(action.lane)];
    if (is_collective(action.op)) ++state.next_collective;
    state.ended[static_cast<std::size_t>(position)] = true;
  }

  bool advance(Rank rank, std::size_t lane) {
    const int position = head(state(rank), lane);
    if (position < 0 || !ready(state(rank), position)) return false;
    const Action& action = (*state(rank).actions)[static_cast<std::size_t>(position)];
    if (!is_collective(action.op)) {
      end(state(rank), position);
      return true;
    }
    const std::vector<Rank> members = group_along(program_.mesh, rank, action.group);
    for (const Rank member : members) {
      const int theirs = head(state(member), lane);
      if (theirs < 0 || !ready(state(member), theirs)) return false;
      const Action& other = (*state(member).actions)[static_cast<std::size_t>(theirs)];
      if (other.group != action.group) return false;
      if (other.op != action.op || other.subject != action.subject)  // then the payload is equal too: check_step
        throw Fault{rank, position,
                    fmt::format("meets action {} of rank {}: {}", theirs, member, to_text(program_, other))};
    }
    for (const Rank member : members) end(state(member), head(state(member), lane));
    return true;
  }

  std::string why_stuck(Rank rank, int position) {
    const Action& action = (*state(rank).actions)[static_cast<std::size_t>(position)];
    for (const Rank member : group_along(program_.mesh, rank, action.group)) {
      const int theirs = head(state(member), static_cast<std::size_t>(action.lane));
      if (theirs < 0) return fmt::format("waits for ever for rank {}, which has ended", member);
      const Action& other = (*state(member).actions)[static_cast<std::size_t>(theirs)];
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
