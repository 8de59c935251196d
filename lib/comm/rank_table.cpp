#include "comm/rank_table.hpp"

#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace lockstep {

namespace {

/// Ranks of equal status, with the shortest and longest time in it.
struct Group {
  RankStatus first;
  std::vector<int> ranks;
  double least_s = 0;
  double most_s = 0;
  bool one_host = true;
};

bool same_status(const RankStatus& a, const RankStatus& b) {
  const auto key = [](const RankStatus& rank) {
    return std::tuple(rank.known, rank.phase, rank.step, rank.action, rank.waits, rank.process);
  };
  return a.known == b.known && (!a.known || key(a) == key(b));
}

std::vector<Group> grouped(const std::vector<RankStatus>& ranks) {
  std::vector<Group> groups;
  for (const RankStatus& rank : ranks) {
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Group& known) { return same_status(known.first, rank); });
    if (group == groups.end()) group = groups.insert(groups.end(), {rank, {}, rank.seconds, rank.seconds, true});
    group->ranks.push_back(rank.rank);
    group->one_host = group->one_host && rank.host == group->first.host;
    group->least_s = std::min(group->least_s, rank.seconds);
    group->most_s = std::max(group->most_s, rank.seconds);
  }
  return groups;
}

std::string who(const Group& group) {
  const std::string ranks = fmt::format("{} {}", group.ranks.size() > 1 ? "ranks" : "rank", rank_ranges(group.ranks));
  return group.one_host ? fmt::format("{} ({})", ranks, group.first.host) : ranks;
}

std::string where(const Group& group) {
  if (!group.first.known) return "no answer, the machine has failed or is stopped";
  std::string time = fmt::format("{:.1f}", group.least_s);
  if (fmt::format("{:.1f}", group.most_s) != time) time += fmt::format(" to {:.1f}", group.most_s);
  std::string text = text_of(group.first.phase, group.first.step);
  if (!group.first.action.empty()) text += fmt::format(" ({})", group.first.action);
  text += fmt::format(" for {} s", time);
  if (group.first.process == RankStatus::Process::gone) return text + ", the process is gone";
  if (group.first.process == RankStatus::Process::stopped) return text + ", the process is stopped";
  return group.first.waits ? text + ", waiting for other ranks" : text;
}

std::vector<RankStatus> those(const std::vector<RankStatus>& ranks,
                              const std::function<bool(const RankStatus&)>& wanted) {
  std::vector<RankStatus> found;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(found), wanted);
  return found;
}

}  // namespace

std::string text_of(Phase phase, std::int64_t step) {
  return step < 0 ? std::string(name_of(phase)) : fmt::format("{} of step {}", name_of(phase), step);
}

std::vector<RankStatus> blocking_ranks(const std::vector<RankStatus>& ranks) {
  std::vector<RankStatus> found =
      those(ranks, [](const RankStatus& rank) { return rank.known && rank.process != RankStatus::Process::runs; });
  if (found.empty()) found = those(ranks, [](const RankStatus& rank) { return !rank.known; });
  if (found.empty()) found = those(ranks, [](const RankStatus& rank) { return !rank.waits; });
  return found;
}

std::string headline(const std::vector<RankStatus>& blocking_ranks) {
  std::vector<std::string> phrases;
  for (const Group& group : grouped(blocking_ranks))
    phrases.push_back(fmt::format("{}{}{}", who(group), group.first.known ? " in " : ": ", where(group)));
  return join(phrases, "; ");
}

std::string table_of(const std::vector<RankStatus>& ranks) {
  std::string text;
  for (const Group& group : grouped(ranks)) text += fmt::format("  {}: {}\n", who(group), where(group));
  return text;
}

}  // namespace lockstep
