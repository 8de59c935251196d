// The certain order of one rank's actions: each lane runs its actions one after the other, and an action starts after
// all actions that it waits for have ended. Nothing else orders two lanes.
#pragma once

#include "program/action.hpp"

#include <array>
#include <vector>

namespace lockstep {

class HappensBefore {
 public:
  /// Every wait must name an earlier position.
  explicit HappensBefore(const std::vector<Action>& actions);
  /// Whether action `a` has certainly ended when action `b` starts.
  bool before(int a, int b) const;

 private:
  struct Position {
    std::size_t lane = 0;
    int turn = 0;                         // position among the actions of the lane
    std::array<int, lane_count> ended{};  // how many actions of each lane have ended when this one starts
  };
  std::vector<Position> positions_;
};

}  // namespace lockstep
