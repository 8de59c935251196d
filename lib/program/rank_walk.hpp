// Walks through the actions of all ranks at once, each lane in its order, as an execution would. A lane advances
// whenever it can, until all have ended or none can advance. The caller defines when a lane can advance and does the
// work. The participants: program/players.hpp.
#pragma once

#include "program/action.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace lockstep {

/// The progress of one rank in its list.
class RankProgress {
 public:
  explicit RankProgress(const std::vector<Action>& actions) : actions_(&actions), ended_(actions.size()) {
    for (std::size_t i = 0; i < actions.size(); ++i)
      lanes_[static_cast<std::size_t>(actions[i].lane)].push_back(static_cast<int>(i));
  }

  const Action& action(int position) const { return (*actions_)[static_cast<std::size_t>(position)]; }
  /// The positions of a lane's actions, in order.
  const std::vector<int>& lane(std::size_t lane) const { return lanes_[lane]; }
  /// The next action of a lane; −1 at its end.
  int head(std::size_t lane) const { return next_[lane] < lanes_[lane].size() ? lanes_[lane][next_[lane]] : -1; }
  bool has_ended(int position) const { return ended_[static_cast<std::size_t>(position)]; }
  bool waits_have_ended(int position) const {
    const Waits& waits = action(position).waits;
    return std::all_of(waits.begin(), waits.end(), [this](int wait) { return has_ended(wait); });
  }
  /// Ends the head of its lane.
  void end(int position) {
    ++next_[static_cast<std::size_t>(action(position).lane)];
    ended_[static_cast<std::size_t>(position)] = true;
  }

 private:
  const std::vector<Action>* actions_;
  std::array<std::vector<int>, lane_count> lanes_;
  std::array<std::size_t, lane_count> next_{};
  std::vector<bool> ended_;
};

/// Calls `advance(player, lane)`, which returns whether that lane could advance, until no lane can.
template <class Advance>
void walk(std::size_t players, const Advance& advance) {
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t player = 0; player < players; ++player)
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        while (advance(player, lane)) moved = true;
  }
}

}  // namespace lockstep
