#include "program/players.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace lockstep {

namespace {

using Group = std::pair<std::vector<AxisName>, int>;

Group group_of(const Action& action) { return {action.group, action.offset}; }

std::set<Group> groups_of(const RankClass& ranks) {
  std::set<Group> groups;
  for (const Action& action : ranks.actions)
    if (meets_others(action)) groups.insert(group_of(action));
  return groups;
}

/// The ranks that come together, this one among them.
std::vector<Rank> members_of(const Mesh& mesh, Rank rank, const Group& group) {
  const auto& [axes, offset] = group;
  if (offset == 0) return group_along(mesh, rank, axes);
  std::vector<Rank> ends{rank, rank + offset * find_axis(mesh, axes.front())->stride};
  std::ranges::sort(ends);
  return ends;
}

void insert_sorted(std::vector<std::size_t>& values, std::size_t value) {
  const auto place = std::ranges::lower_bound(values, value);
  if (place == values.end() || *place != value) values.insert(place, value);
}

/// For each rank, the classes that come together in its group.
class ClassesByCell {
 public:
  ClassesByCell(const Mesh& mesh, const std::vector<std::size_t>& class_of, const std::vector<AxisName>& axes)
      : cell_of_(class_of.size()) {
    std::vector<Axis> along;
    for (const AxisName& name : axes)
      if (const Axis* axis = find_axis(mesh, name)) along.push_back(*axis);
    for (std::size_t rank = 0; rank < class_of.size(); ++rank) {
      auto origin = static_cast<int>(rank);  // the member of the group whose coordinates along it are 0
      for (const Axis& axis : along) origin -= origin / axis.stride % axis.size * axis.stride;
      cell_of_[rank] = static_cast<std::size_t>(origin);
      std::vector<std::size_t>& classes = classes_[cell_of_[rank]];
      if (classes.empty() || classes.back() != class_of[rank]) insert_sorted(classes, class_of[rank]);
    }
  }
  const std::vector<std::size_t>& of(Rank rank) const { return classes_.at(cell_of_[static_cast<std::size_t>(rank)]); }

 private:
  std::vector<std::size_t> cell_of_;                                   // by rank: the first rank of its group
  std::unordered_map<std::size_t, std::vector<std::size_t>> classes_;  // by that rank
};

}  // namespace

WalkParticipants::WalkParticipants(const StepProgram& program) {
  if (!play_classes(program)) play_ranks(program);
}

bool WalkParticipants::play_classes(const StepProgram& program) {
  std::vector<std::size_t> class_of(static_cast<std::size_t>(world_size(program.mesh)));
  for (std::size_t i = 0; i < program.classes.size(); ++i)
    for (const Rank rank : program.classes[i].ranks) class_of[static_cast<std::size_t>(rank)] = i;
  std::map<std::vector<AxisName>, ClassesByCell> cells;
  for (std::size_t i = 0; i < program.classes.size(); ++i) {
    const RankClass& ranks = program.classes[i];
    Player player{ranks.ranks.front(), &ranks, {}, {i}};
    for (const Group& group : groups_of(ranks)) {
      std::vector<std::size_t>& met = player.meetings[group];
      if (group.second == 0) {
        const ClassesByCell& cell = cells.try_emplace(group.first, program.mesh, class_of, group.first).first->second;
        met = cell.of(player.rank);
        if (!std::ranges::all_of(ranks.ranks, [&](Rank rank) { return cell.of(rank) == met; })) return false;
      } else {
        const int distance = group.second * find_axis(program.mesh, group.first.front())->stride;
        const auto peer = [&](Rank rank) { return class_of[static_cast<std::size_t>(rank + distance)]; };
        if (!std::ranges::all_of(ranks.ranks, [&](Rank rank) { return peer(rank) == peer(player.rank); })) return false;
        met = {i};
        insert_sorted(met, peer(player.rank));
      }
    }
    players_.push_back(std::move(player));
  }
  return true;
}

void WalkParticipants::play_ranks(const StepProgram& program) {
  players_.clear();
  for (Rank rank = 0; rank < world_size(program.mesh); ++rank) {
    Player player{rank, &program.class_of(rank), {}, {static_cast<std::size_t>(rank)}};
    for (const Group& group : groups_of(*player.ranks))
      for (const Rank member : members_of(program.mesh, rank, group))
        player.meetings[group].push_back(static_cast<std::size_t>(member));
    players_.push_back(std::move(player));
  }
}

const std::vector<std::size_t>& WalkParticipants::meeting(std::size_t player, const Action& action) const {
  return meets_others(action) ? players_[player].meetings.at(group_of(action)) : players_[player].alone;
}

}  // namespace lockstep
