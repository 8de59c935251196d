// Collectives and transfers across ranks: all players (program/players.hpp) are walked together. Whoever can go on
// does, until all have ended or nobody can. A send ends when it is received, so that no order relies on buffers.
#include "program/players.hpp"
#include "program/rank_walk.hpp"
#include "program/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::rules {

namespace {

class Walk {
 public:
  explicit Walk(const StepProgram& program) : program_(program), players_(program) {
    for (std::size_t player = 0; player < players_.count(); ++player)
      states_.emplace_back(players_.class_of(player).actions);
  }

  void run() {
    walk(players_.count(), [this](std::size_t player, std::size_t lane) { return advance(player, lane); });
    for (std::size_t player = 0; player < players_.count(); ++player)
      for (std::size_t lane = 0; lane < lane_count; ++lane)
        if (const int stuck = states_[player].progress.head(lane); stuck >= 0 && ready(states_[player], stuck))
          throw Fault{players_.rank_of(player), stuck, why_stuck(player, stuck)};
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

  bool advance(std::size_t player, std::size_t lane) {
    State& state = states_[player];
    const int position = state.progress.head(lane);
    if (position < 0 || !ready(state, position)) return false;
    const Action& action = state.progress.action(position);
    if (is_collective(action.op)) return meet(player, position);
    if (is_transfer(action.op)) return is_send(action.op) && hand_over(player, position);
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
      if (other.op != action.op || other.subject != action.subject)  // then the payload is equal too: check_step
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
    const int theirs = peer.progress.head(static_cast<std::size_t>(Lane::receive));
    if (theirs < 0 || !ready(peer, theirs) || !answers(action, peer.progress.action(theirs))) return false;
    end(peer, theirs);
    end(states_[player], position);
    return true;
  }

  static bool answers(const Action& send, const Action& receive) {
    return is_send(send.op) && receive.op == counterpart_of(send.op) && receive.subject == send.subject &&
           receive.micro_batch == send.micro_batch && receive.group == send.group && receive.offset == -send.offset &&
           receive.peer_lane == send.lane;
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
    const std::vector<Action>& theirs = players_.class_of(peer).actions;
    const auto other_end = std::ranges::find_if(theirs, [&](const Action& other) {
      return is_send(action.op) ? answers(action, other) : answers(other, action);
    });
    const Rank rank = players_.rank_of(peer);
    if (other_end == theirs.end()) return fmt::format("waits for ever for rank {}, which has no other end of it", rank);
    const auto position = static_cast<int>(other_end - theirs.begin());
    const int head = states_[peer].progress.head(static_cast<std::size_t>(other_end->lane));
    if (head < 0 || head == position || states_[peer].progress.has_ended(position))
      return fmt::format("waits for ever for action {} of rank {}", position, rank);
    return fmt::format("waits for ever for action {} of rank {}, which is at action {} ({})", position, rank, head,
                       to_text(program_, theirs[static_cast<std::size_t>(head)]));
  }

  const StepProgram& program_;
  Players players_;
  std::vector<State> states_;
};

}  // namespace

void check_matching(const StepProgram& program) { Walk(program).run(); }

}  // namespace lockstep::rules
