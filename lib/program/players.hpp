// Who acts when a program is walked through (program/rank_walk.hpp): one player for each class of ranks where classes
// meet alike, so that the work does not grow with the number of ranks.
#pragma once

#include "program/step_program.hpp"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace lockstep {

class Players {
 public:
  /// One player for each class if all its ranks meet ranks of the same classes in every collective and transfer;
  /// otherwise one for each rank. The program must outlive them, its form be right.
  explicit Players(const StepProgram& program);

  std::size_t count() const { return players_.size(); }
  /// A rank that the player stands for, and its class.
  Rank rank_of(std::size_t player) const { return players_[player].rank; }
  const RankClass& class_of(std::size_t player) const { return *players_[player].ranks; }
  /// The players that must come together for an action of a player, ascending: of a collective those of its group, of a
  /// transfer its two ends, otherwise the player alone.
  const std::vector<std::size_t>& meeting(std::size_t player, const Action& action) const;

 private:
  using Group = std::pair<std::vector<AxisName>, int>;  // axes; of a transfer the offset, otherwise 0
  struct Player {
    Rank rank = 0;
    const RankClass* ranks = nullptr;
    std::map<Group, std::vector<std::size_t>> meetings;
    std::vector<std::size_t> alone;
  };

  /// Makes players of classes, if that is possible.
  bool play_classes(const StepProgram& program);
  void play_ranks(const StepProgram& program);

  std::vector<Player> players_;
};

}  // namespace lockstep
