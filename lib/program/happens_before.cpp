#include "program/happens_before.hpp"

#include <algorithm>

namespace lockstep {

HappensBefore::HappensBefore(const std::vector<Action>& actions) {
  std::array<int, lane_count> last{};  // position of each lane's latest action
  last.fill(-1);
  for (const Action& action : actions) {
    Position place;
    place.lane = static_cast<std::size_t>(action.lane);
    const auto follow = [&](int position) {
      const Position& earlier = positions_[static_cast<std::size_t>(position)];
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        place.ended[lane] = std::max(place.ended[lane], earlier.ended[lane]);
      place.ended[earlier.lane] = std::max(place.ended[earlier.lane], earlier.turn + 1);
    };
    if (last[place.lane] >= 0) {
      follow(last[place.lane]);
      place.turn = positions_[static_cast<std::size_t>(last[place.lane])].turn + 1;
    }
    for (const int wait : action.waits) follow(wait);
    last[place.lane] = static_cast<int>(positions_.size());
    positions_.push_back(place);
  }
}

bool HappensBefore::before(int a, int b) const {
  const Position& first = positions_[static_cast<std::size_t>(a)];
  return positions_[static_cast<std::size_t>(b)].ended[first.lane] > first.turn;
}

}  // namespace lockstep
