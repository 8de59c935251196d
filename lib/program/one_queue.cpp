// The order of communication for devices with one queue for it. The ranks are walked together with their lanes side by
// side, which always ends. Whatever can go in the order of the lists does. Where nothing can, one meeting goes first
// that comes later in some list: the one that comes soonest. The order of these meetings is one that all ranks share.
#include "program/players.hpp"
#include "program/rank_walk.hpp"
#include "program/rewriter.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

class Walk {
 public:
  explicit Walk(const StepProgram& program) : players_(program) {
    for (std::size_t player = 0; player < players_.count(); ++player)
      states_.emplace_back(players_.class_of(player).actions);
  }

  /// By player: the positions of its communication, in an order that all ranks can issue one at a time.
  std::vector<std::vector<int>> orders() {
    do {
      walk(players_.count(), [this](std::size_t player, std::size_t lane) { return advance(player, lane); });
    } while (meet_early());
    std::vector<std::vector<int>> orders;
    for (State& state : states_) orders.push_back(std::move(state.met));
    return orders;
  }
  const RankClass& class_of(std::size_t player) const { return players_.class_of(player); }

 private:
  struct State {
    RankProgress progress;
    std::vector<int> open;  // positions of communication that has not ended, ascending
    std::vector<int> met = {};

    explicit State(const std::vector<Action>& actions) : progress(actions) {
      for (std::size_t i = 0; i < actions.size(); ++i)
        if (meets_others(actions[i])) open.push_back(static_cast<int>(i));
    }
    bool is_ready(int position) const {
      return progress.head(static_cast<std::size_t>(progress.action(position).lane)) == position &&
             progress.waits_have_ended(position);
    }
    /// How many others come before it in the list.
    std::size_t distance(int position) const {
      return static_cast<std::size_t>(std::ranges::find(open, position) - open.begin());
    }
  };
  struct Place {
    std::size_t player = 0;
    int position = 0;
  };

  bool advance(std::size_t player, std::size_t lane) {
    State& state = states_[player];
    const int position = state.progress.head(lane);
    if (position < 0 || !state.is_ready(position)) return false;
    if (!meets_others(state.progress.action(position))) {
      state.progress.end(position);
      return true;
    }
    if (state.open.front() != position) return false;
    const std::vector<Place> places = meeting(player, position);
    for (const Place& place : places)
      if (states_[place.player].open.front() != place.position) return false;
    end(places);
    return !places.empty();
  }

  /// Everyone who takes part in an action that is ready; empty if one of them is not.
  std::vector<Place> meeting(std::size_t player, int position) const {
    const Action& action = states_[player].progress.action(position);
    std::vector<Place> places;
    for (const std::size_t member : players_.meeting(player, action)) {
      if (member == player) {
        places.push_back({player, position});
        continue;
      }
      const State& state = states_[member];
      const bool sends = is_transfer(action.op) && is_send(action.op);
      const Lane lane = !is_transfer(action.op) ? action.lane
                        : sends                 ? facts_of(counterpart_of(action.op)).lane
                                                : action.peer_lane;
      const int theirs = state.progress.head(static_cast<std::size_t>(lane));
      if (theirs < 0 || !state.is_ready(theirs)) return {};
      const Action& other = state.progress.action(theirs);
      const bool fits = !is_transfer(action.op) ? other.op == action.op && other.group == action.group
                        : sends                 ? is_received_by(action, other)
                                                : is_received_by(other, action);
      if (!fits) return {};
      places.push_back({member, theirs});
    }
    return places;
  }

  void end(const std::vector<Place>& places) {
    for (const auto& [player, position] : places) {
      State& state = states_[player];
      state.progress.end(position);
      std::erase(state.open, position);
      state.met.push_back(position);
    }
  }

  /// Ends the next meeting that can be held out of the order of the lists. Returns false if there is none.
  bool meet_early() {
    std::vector<Place> chosen;
    std::size_t least = 0;
    for (std::size_t player = 0; player < states_.size(); ++player)
      for (std::size_t lane = 0; lane < lane_count; ++lane) {
        const State& state = states_[player];
        const int position = state.progress.head(lane);
        if (position < 0 || !meets_others(state.progress.action(position)) || !state.is_ready(position)) continue;
        std::vector<Place> places = meeting(player, position);
        std::size_t distance = 0;
        for (const Place& place : places) distance += states_[place.player].distance(place.position);
        if (places.empty() || (!chosen.empty() && distance >= least)) continue;
        chosen = std::move(places);
        least = distance;
      }
    end(chosen);
    return !chosen.empty();
  }

  WalkParticipants players_;
  std::vector<State> states_;
};

/// Writes a list anew with its communication in another order. All else keeps its order, and so do the actions of a
/// lane.
class InThisOrder {
 public:
  InThisOrder(const std::vector<Action>& actions, const std::vector<int>& order)
      : actions_(actions), order_(order), new_position_(actions.size(), -1), before_on_lane_(actions.size(), -1) {
    std::array<int, lane_count> last{};
    last.fill(-1);
    for (std::size_t i = 0; i < actions.size(); ++i)
      before_on_lane_[i] = std::exchange(last[static_cast<std::size_t>(actions[i].lane)], static_cast<int>(i));
  }

  std::vector<Action> list() && {
    for (int position = 0; std::cmp_less(position, actions_.size()); ++position) {
      if (!meets_others(at(position))) put(position);
      while (next_ < order_.size() && order_[next_] <= position) put(order_[next_]);
    }
    return std::move(list_);
  }

 private:
  const Action& at(int position) const { return actions_[static_cast<std::size_t>(position)]; }
  int& new_position(int old) { return new_position_[static_cast<std::size_t>(old)]; }

  /// Appends an action, after all that has to come before it.
  void put(int position) {
    if (new_position(position) >= 0) return;
    if (meets_others(at(position)))
      while (order_[next_] != position) put(order_[next_]);
    if (const int before = before_on_lane_[static_cast<std::size_t>(position)]; before >= 0) put(before);
    for (const int wait : at(position).waits) put(wait);
    Action action = at(position);
    for (int& wait : action.waits) wait = new_position(wait);
    std::ranges::sort(action.waits);
    new_position(position) = static_cast<int>(list_.size());
    list_.push_back(std::move(action));
    if (meets_others(at(position))) ++next_;
  }

  const std::vector<Action>& actions_;
  const std::vector<int>& order_;
  std::size_t next_ = 0;  // of the order
  std::vector<int> new_position_, before_on_lane_;
  std::vector<Action> list_;
};

}  // namespace

StepProgram issue_one_at_a_time(const StepProgram& program) {
  Walk walk(program);
  const std::vector<std::vector<int>> orders = walk.orders();
  StepProgram result = program;
  for (std::size_t player = 0; player < orders.size(); ++player)
    for (std::size_t i = 0; i < result.classes.size(); ++i)
      if (&walk.class_of(player) == &program.classes[i])
        result.classes[i].actions = InThisOrder(program.classes[i].actions, orders[player]).list();
  return result;
}

}  // namespace lockstep
