// The participants of a walk through a program (program/rank_walk.hpp). If all ranks of a class meet the same classes,
// one player stands for each class, so the work does not grow with the number of ranks.
#pragma once

#include "program/step_program.hpp"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace lockstep {

class WalkParticipants {
 public:
  /// Makes one player for each class if all its ranks meet ranks of the same classes in every collective and transfer,
  /// and otherwise one for each rank. The program must be well-formed and outlive the players.
  explicit WalkParticipants(const StepProgram& program);

  std::size_t count() const { return players_.size(); }
  /// The rank that represents the player, and its class.
  Rank rank_of(std::size_t player) const { return players_[player].rank; }
  const RankClass& class_of(std::size_t player) const { return *players_[player].ranks; }
  /// The players that meet for an action of a player, ascending: the group of a collective, the two ends of a transfer,
  /// otherwise the player alone.
  const std::vector<std::size_t>& meeting(std::size_t player, const Action& action) const;

 private:
  using Group = std::pair<std::vector<AxisName>, int>;  // axes, and the offset of a transfer (0 otherwise)
  struct Player {
    Rank rank = 0;
    const RankClass* ranks = nullptr;
    std::map<Group, std::vector<std::size_t>> meetings;
    std::vector<std::size_t> alone;
  };

  /// Makes one player per class. Returns false if that is impossible.
  bool play_classes(const StepProgram& program);
  void play_ranks(const StepProgram& program);

  std::vector<Player> players_;
};

}  // namespace lockstep
