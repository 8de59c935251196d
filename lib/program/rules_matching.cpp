// Collectives and transfers across ranks: all players (program/players.hpp) are walked together. Whoever can go on
// does, until all have ended or nobody can. A send ends when it is received, so that no order relies on buffers.
#include "program/players.hpp"
#include "program/rank_walk.hpp"
#include "program/rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace lockstep::rules {

namespace {

/// What a rank issues in the order of its list, each after the one before it has ended, whatever their lanes.
enum class InOrder { collectives, all_communication };

class Walk {
 public:
  Walk(const StepProgram& program, InOrder in_order) : program_(program), players_(program), in_order_(in_order) {
    for (std::size_t player = 0; player < players_.count(); ++player)
      states_.emplace_back(players_.class_of(player).actions, in_order);
  }

  /// Throws the Fault if somebody waits for ever.
  void run() {
    walk(players_.count(), [this](std::size_t player, std::size_t lane) { return advance(player, lane); });
    for (std::size_t player = 0; player < players_.count(); ++player)
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        if (const int stuck = states_[player].progress.head(lane); stuck >= 0 && ready(states_[player], stuck))
          throw fault_at(cause_of({player, stuck}));
  }

 private:
  struct State {
    RankProgress progress;
    std::vector<int> ordered;  // positions of what is issued in order
    std::size_t next = 0;      // of these

    State(const std::vector<Action>& actions, InOrder in_order) : progress(actions) {
      for (std::size_t i = 0; i < actions.size(); ++i)
        if (is_ordered(actions[i], in_order)) ordered.push_back(static_cast<int>(i));
    }
  };

  /// An action of a player that has not ended.
  struct Place {
    std::size_t player = 0;
    int position = 0;
    bool operator==(const Place&) const = default;
  };

  static bool is_ordered(const Action& action, InOrder in_order) {
    return in_order == InOrder::collectives ? is_collective(action.op) : meets_others(action);
  }

  /// Everything on this rank allows the action to start: its waits, and what has to be issued before it.
  bool ready(const State& state, int position) const {
    if (is_ordered(state.progress.action(position), in_order_) && state.ordered[state.next] != position) return false;
    return state.progress.waits_have_ended(position);
  }

  void end(State& state, int position) {
    state.progress.end(position);
    if (is_ordered(state.progress.action(position), in_order_)) ++state.next;
  }

  Fault fault_at(const Place& place) const {
    return {players_.rank_of(place.player), place.position, why_stuck(place.player, place.position)};
  }

  /// Where the waiting begins: one stuck action waits for another, until that is one that was met before, part of the
  /// circle, or one whose other end never comes.
  Place cause_of(Place place) const {
    std::vector<Place> passed;
    while (std::ranges::find(passed, place) == passed.end()) {
      passed.push_back(place);
      const std::optional<Place> next = waits_for(place);
      if (!next) break;
      place = *next;
    }
    return place;
  }

  /// The stuck action that `place`, which is ready, waits for; nothing if that of its other end has ended or does not
  /// exist.
  std::optional<Place> waits_for(const Place& place) const {
    const Action& action = states_[place.player].progress.action(place.position);
    if (is_transfer(action.op)) {
      const std::size_t peer = peer_of(place.player, action);
      const int other = other_end_of(peer, action);
      if (other < 0 || states_[peer].progress.has_ended(other)) return std::nullopt;
      return blocker_of(peer, other);
    }
    for (const std::size_t member : players_.meeting(place.player, action)) {
      const State& state = states_[member];
      const int theirs = state.progress.head(static_cast<std::size_t>(action.lane));
      if (theirs < 0) return std::nullopt;
      const Action& other = state.progress.action(theirs);
      if (other.group != action.group || !ready(state, theirs)) return blocker_of(member, theirs);
    }
    return std::nullopt;
  }

  /// What is ready on a player and has to end before the action at `position` can.
  Place blocker_of(std::size_t player, int position) const {
    const State& state = states_[player];
    const auto lane = static_cast<std::size_t>(state.progress.action(position).lane);
    if (const int head = state.progress.head(lane); head != position) return blocker_of(player, head);
    const Action& action = state.progress.action(position);
    if (is_ordered(action, in_order_) && state.ordered[state.next] != position)
      return blocker_of(player, state.ordered[state.next]);
    for (const int wait : action.waits)
      if (!state.progress.has_ended(wait)) return blocker_of(player, wait);
    return {player, position};
  }

  bool advance(std::size_t player, std::size_t lane) {
    State& state = states_[player];
    const int position = state.progress.head(lane);
    if (position < 0 || !ready(state, position)) return false;
    const Action& action = state.progress.action(position);
    if (is_transfer(action.op)) return is_send(action.op) && hand_over(player, position);
    if (meets_others(action)) return meet(player, position);
    end(state, position);
    return true;
  }

  bool meet(std::size_t player, int position) {
    const Action& action = states_[player].progress.action(position);
    const auto lane = static_cast<std::size_t>(action.lane);
    const std::vector<std::size_t>& members = players_.meeting(player, action);
    for (const std::size_t member : members) {
      const int theirs = states_[member].progress.head(lane);
      if (theirs < 0 || !ready(states_[member], theirs)) return false;
      const Action& other = states_[member].progress.action(theirs);
      if (other.group != action.group) return false;
      if (other.op != action.op || other.subject != action.subject ||
          other.micro_batch != action.micro_batch)  // then the payload is equal too: check_step
        throw Fault{
            players_.rank_of(player), position,
            fmt::format("meets action {} of rank {}: {}", theirs, players_.rank_of(member), to_text(program_, other))};
    }
    for (const std::size_t member : members) end(states_[member], states_[member].progress.head(lane));
    return true;
  }

  /// A send meets the receive that its peer has posted, if it is the one for it.
  bool hand_over(std::size_t player, int position) {
    const Action& action = states_[player].progress.action(position);
    State& peer = states_[peer_of(player, action)];
    const int theirs = peer.progress.head(static_cast<std::size_t>(facts_of(counterpart_of(action.op)).lane));
    if (theirs < 0 || !ready(peer, theirs) || !is_received_by(action, peer.progress.action(theirs))) return false;
    end(peer, theirs);
    end(states_[player], position);
    return true;
  }

  std::size_t peer_of(std::size_t player, const Action& action) const {
    const std::vector<std::size_t>& ends = players_.meeting(player, action);
    return ends.front() == player ? ends.back() : ends.front();
  }

  std::string why_stuck(std::size_t player, int position) const {
    const Action& action = states_[player].progress.action(position);
    if (is_transfer(action.op)) return why_transfer_is_stuck(player, action);
    for (const std::size_t member : players_.meeting(player, action)) {
      const State& state = states_[member];
      const int theirs = state.progress.head(static_cast<std::size_t>(action.lane));
      const Rank rank = players_.rank_of(member);
      if (theirs < 0) return fmt::format("waits for ever for rank {}, which has ended", rank);
      const Action& other = state.progress.action(theirs);
      if (other.group != action.group || !ready(state, theirs))
        return fmt::format("waits for ever for rank {}, which is at action {} ({})", rank, theirs,
                           to_text(program_, other));
    }
    return "waits for ever";
  }

  std::string why_transfer_is_stuck(std::size_t player, const Action& action) const {
    const std::size_t peer = peer_of(player, action);
    const Rank rank = players_.rank_of(peer);
    const int position = other_end_of(peer, action);
    if (position < 0) return fmt::format("waits for ever for rank {}, which has no matching transfer", rank);
    if (states_[peer].progress.has_ended(position))
      return fmt::format("waits for ever for action {} of rank {}", position, rank);
    const int at = blocker_of(peer, position).position;
    if (at == position) return fmt::format("waits for ever for action {} of rank {}", position, rank);
    return fmt::format("waits for ever for action {} of rank {}, which is at action {} ({})", position, rank, at,
                       to_text(program_, states_[peer].progress.action(at)));
  }

  /// The position of the other end of a transfer in the list of its peer; −1 if it has none.
  int other_end_of(std::size_t peer, const Action& action) const {
    const std::vector<Action>& theirs = players_.class_of(peer).actions;
    const auto found = std::ranges::find_if(theirs, [&](const Action& other) {
      return is_send(action.op) ? is_received_by(action, other) : is_received_by(other, action);
    });
    return found == theirs.end() ? -1 : static_cast<int>(found - theirs.begin());
  }

  const StepProgram& program_;
  WalkParticipants players_;
  InOrder in_order_;
  std::vector<State> states_;
};

}  // namespace

void check_matching(const StepProgram& program) { Walk(program, InOrder::collectives).run(); }

void check_serial_issue(const StepProgram& program) { Walk(program, InOrder::all_communication).run(); }

}  // namespace lockstep::rules
