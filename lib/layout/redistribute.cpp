#include "layout/redistribute.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace lockstep {

namespace {

bool has(const Mesh& mesh, Rank rank) { return rank >= 0 && rank < world_size(mesh); }

/// Who gives `destination` what it needs of a box that all of `holders` (ascending, not empty) hold.
Rank nearest(const std::vector<Rank>& holders, Rank destination) {
  const auto above = std::lower_bound(holders.begin(), holders.end(), destination);
  if (above == holders.begin()) return *above;
  if (above == holders.end()) return holders.back();
  const Rank below = *(above - 1);
  return *above - destination < destination - below ? *above : below;
}

/// Each distinct box of `from` that meets `wanted`, in order of its begin, with the ranks that hold it.
std::map<std::pair<Shape, Shape>, std::vector<Rank>> holders_by_box(const Layout& from, const Box& wanted) {
  std::map<std::pair<Shape, Shape>, std::vector<Rank>> holders;
  for (const Rank rank : holders_meeting(from, wanted)) {
    const Box box = box_of(from, rank);
    holders[{box.begin, box.extent}] = replicas_of(from, rank);
  }
  return holders;
}

}  // namespace

std::vector<Copy> redistribute(const Layout& from, const Layout& to, Rank rank) {
  if (from.global != to.global)
    fail(ExitCode::usage, "cannot redistribute a {} tensor to a {} tensor", to_text(from.global), to_text(to.global));
  check(from);
  check(to);
  std::vector<Copy> copies;
  const Box wanted = has(to.mesh, rank) ? box_of(to, rank) : nothing(to.global);
  for (const auto& [held, holders] : holders_by_box(from, wanted))
    copies.push_back({nearest(holders, rank), rank, intersect({held.first, held.second}, wanted)});
  const Box mine = has(from.mesh, rank) ? box_of(from, rank) : nothing(from.global);
  if (empty(mine)) return copies;
  const std::vector<Rank> replicas = replicas_of(from, rank);
  for (Rank destination = 0; destination < world_size(to.mesh); ++destination) {
    if (destination == rank || nearest(replicas, destination) != rank) continue;
    const Box box = intersect(mine, box_of(to, destination));
    if (!empty(box)) copies.push_back({rank, destination, box});
  }
  return copies;
}

}  // namespace lockstep
