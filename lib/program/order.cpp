#include "program/order.hpp"

#include <algorithm>

namespace lockstep {

Order::Order(const std::vector<Action>& actions) {
  std::array<int, lane_count> last{};   // position of each lane's latest action
  last.fill(-1);
  for (const Action& action : actions) {
    Place place;
    place.lane = static_cast<std::size_t>(action.lane);
    const auto follow = [&](int position) {
      const Place& earlier = places_[static_cast<std::size_t>(position)];
      for (std::size_t lane = 0; lane < lane_count; ++lane) place.ended[lane] = std::max(place.ended[lane], earlier.ended[lane]);
      place.ended[earlier.lane] = std::max(place.ended[earlier.lane], earlier.turn + 1);
    };
    if (last[place.lane] >= 0) {
      follow(last[place.lane]);
      place.turn = places_[static_cast<std::size_t>(last[place.lane])].turn + 1;
    }
    for (const int wait : action.waits) follow(wait);
    last[place.lane] = static_cast<int>(places_.size());
    places_.push_back(place);
  }
}

bool Order::before(int a, int b) const {
  const Place& first = places_[static_cast<std::size_t>(a)];
  return places_[static_cast<std::size_t>(b)].ended[first.lane] > first.turn;
}

}  // namespace lockstep
