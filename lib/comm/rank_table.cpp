#include "comm/rank_table.hpp"

#include "base/text.hpp"
#include "comm/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace lockstep {

namespace {

/// Ranks that are at the same place, with the shortest and longest time there.
struct Group {
  RankStatus first;
  std::vector<int> ranks;
  double least_s = 0;
  double most_s = 0;
  bool one_host = true;
};

bool same_place(const RankStatus& a, const RankStatus& b) {
  const auto key = [](const RankStatus& place) {
    return std::tuple(place.known, place.phase, place.step, place.waits, place.process);
  };
  return a.known == b.known && (!a.known || key(a) == key(b));
}

std::vector<Group> grouped(const std::vector<RankStatus>& places) {
  std::vector<Group> groups;
  for (const RankStatus& place : places) {
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Group& known) { return same_place(known.first, place); });
    if (group == groups.end()) group = groups.insert(groups.end(), {place, {}, place.seconds, place.seconds, true});
    group->ranks.push_back(place.rank);
    group->one_host = group->one_host && place.host == group->first.host;
    group->least_s = std::min(group->least_s, place.seconds);
    group->most_s = std::max(group->most_s, place.seconds);
  }
  return groups;
}

std::string who(const Group& group) {
  const std::string ranks = fmt::format("{} {}", group.ranks.size() > 1 ? "ranks" : "rank", rank_ranges(group.ranks));
  return group.one_host ? fmt::format("{} ({})", ranks, group.first.host) : ranks;
}

std::string where(const Group& group) {
  if (!group.first.known) return "no sign, the machine is gone or stopped";
  std::string time = fmt::format("{:.1f}", group.least_s);
  if (fmt::format("{:.1f}", group.most_s) != time) time += fmt::format(" to {:.1f}", group.most_s);
  std::string text = fmt::format("{} for {} s", text_of(group.first.phase, group.first.step), time);
  if (group.first.process == RankStatus::Process::gone) return text + ", the process is gone";
  if (group.first.process == RankStatus::Process::stopped) return text + ", the process is stopped";
  return group.first.waits ? text + ", waiting for other ranks" : text;
}

std::vector<RankStatus> those(const std::vector<RankStatus>& places,
                              const std::function<bool(const RankStatus&)>& wanted) {
  std::vector<RankStatus> found;
  std::copy_if(places.begin(), places.end(), std::back_inserter(found), wanted);
  return found;
}

}  // namespace

std::string text_of(Phase phase, std::int64_t step) {
  return step < 0 ? std::string(name_of(phase)) : fmt::format("{} of step {}", name_of(phase), step);
}

std::vector<RankStatus> culprits(const std::vector<RankStatus>& places) {
  std::vector<RankStatus> found =
      those(places, [](const RankStatus& place) { return place.known && place.process != RankStatus::Process::runs; });
  if (found.empty()) found = those(places, [](const RankStatus& place) { return !place.known; });
  if (found.empty()) found = those(places, [](const RankStatus& place) { return !place.waits; });
  return found;
}

std::string headline(const std::vector<RankStatus>& culprits) {
  std::vector<std::string> phrases;
  for (const Group& group : grouped(culprits))
    phrases.push_back(fmt::format("{}{}{}", who(group), group.first.known ? " in " : ": ", where(group)));
  return join(phrases, "; ");
}

std::string table_of(const std::vector<RankStatus>& places) {
  std::string text;
  for (const Group& group : grouped(places)) text += fmt::format("  {}: {}\n", who(group), where(group));
  return text;
}

}  // namespace lockstep
