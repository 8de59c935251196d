#include "checkpoint/agreed_view.hpp"

#include "base/clock.hpp"
#include "base/json.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/checkpoint_verify.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace lockstep {

namespace {

std::string encode(const Sighting& sighting) {
  return to_text(
      Json{{"code",
            sighting.judgement.verdict == Verdict::sound ? 0 : static_cast<int>(code_of(sighting.judgement.verdict))},
           {"reason", sighting.judgement.reason},
           {"hint", sighting.judgement.hint},
           {"lacking", sighting.lacking},
           {"elsewhere", sighting.elsewhere},
           {"content", sighting.content},
           {"host", host_name()}});
}

struct RankSighting {
  Sighting sighting;
  std::string who;  // "rank 1 (node17)"
};

RankSighting decode(const std::string& text, std::size_t rank) {
  const Json json = parse_json(text, "a rank's report");
  RankSighting seen;
  const auto verdict = verdict_of(static_cast<ExitCode>(json.at("code").get<int>()));
  seen.sighting.judgement = {verdict.value_or(Verdict::sound), json.at("reason"), json.at("hint")};
  seen.sighting.lacking = json.at("lacking");
  seen.sighting.elsewhere = json.at("elsewhere");
  seen.sighting.content = json.at("content");
  seen.who = fmt::format("rank {} ({})", rank, json.at("host").get<std::string>());
  return seen;
}

// Returns how two ranks see a checkpoint differently; nothing if they see the same.
std::optional<std::string> difference(const RankSighting& first, const RankSighting& other) {
  const Sighting& a = first.sighting;
  const Sighting& b = other.sighting;
  if (a.judgement.verdict == b.judgement.verdict && a.lacking == b.lacking && a.content == b.content)
    return std::nullopt;
  const auto view = [](const Sighting& sighting) {
    if (!sighting.judgement.reason.empty()) return sighting.judgement.reason;
    return sighting.lacking.empty() ? std::string("all files are there") : sighting.lacking;
  };
  if (view(a) == view(b))
    return fmt::format("{} and {} see different file sizes, or a different {}", first.who, other.who, manifest_file);
  return fmt::format("the ranks see different files: {}: {}; {}: {}", first.who, view(a), other.who, view(b));
}

// The verdict on what each node has a part of; nothing if that is not the matter. It lacks nothing where nodes look for
// it, so it is not damaged.
std::optional<Judgement> kept_by_nodes(const std::vector<RankSighting>& seen) {
  const auto one = std::ranges::find_if(seen, [](const RankSighting& each) { return each.sighting.elsewhere; });
  if (one == seen.end()) return std::nullopt;
  return Judgement{
      Verdict::unreadable, fmt::format("{}: {}, but checkpoint.storage is shared", one->who, one->sighting.lacking),
      "the run saved with checkpoint.storage: per_node: start it with this option on the nodes that have the parts, "
      "or copy this checkpoint's files from all nodes into one folder: files of the same name are identical"};
}

// Returns what the sightings of all ranks come to at this moment.
Judgement combined(const std::vector<RankSighting>& seen) {
  for (const RankSighting& one : seen) {
    const Judgement& judgement = one.sighting.judgement;
    if (judgement.verdict != Verdict::unreadable) continue;
    return {Verdict::unreadable,
            seen.size() == 1 ? judgement.reason : fmt::format("{}: {}", one.who, judgement.reason)};
  }
  for (const RankSighting& one : seen) {
    if (const auto reason = difference(seen.front(), one)) return {Verdict::unreadable, *reason};
  }
  return seen.front().sighting.judgement;
}

}  // namespace

bool Patience::wait(Communicator& ranks, const std::string& thing, const std::string& reason) {
  const auto [entry, is_first] = since_.try_emplace(thing, monotonic_seconds());
  const double longest = ranks.all_reduce(monotonic_seconds() - entry->second, Reduce::max);  // clocks differ
  if (longest >= limit_s_) return false;
  if (is_first && tell_) tell_(fmt::format("{}: retrying for up to {:g} s", reason, limit_s_));
  const double pause_s = std::clamp(limit_s_ - longest, 0.0, longest < 1 ? 0.1 : 1.0);
  std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
  return true;
}

std::vector<CheckpointEntry> agreed_list(Communicator& ranks, const Path& run, Patience& patience) {
  const std::string what = fmt::format("looking for checkpoints of {}", run.string());
  while (true) {
    std::vector<CheckpointEntry> entries;
    std::string names;
    std::string reason;
    try {
      together(ranks, what, [&] {
        entries = list_checkpoints(run);
        for (const CheckpointEntry& entry : entries) names += entry.path.filename().string() + " ";
      });
    } catch (const AgreedError& error) {
      if (error.code() != code_of(Verdict::unreadable)) throw;
      reason = error.what();
    }
    if (reason.empty()) {
      const std::vector<std::string> seen = ranks.all_gather(names);
      const auto other = std::find_if(seen.begin(), seen.end(), [&](const auto& text) { return text != seen.front(); });
      if (other == seen.end()) return entries;
      reason = fmt::format("{}: the first rank sees '{}', rank {} sees '{}'", what, seen.front(), other - seen.begin(),
                           *other);
    }
    if (!patience.wait(ranks, run.string(), reason))
      throw Error(code_of(Verdict::unreadable), fmt::format("{} (retried for {:g} s)", reason, patience.limit_s()),
                  "repair the storage and start the same command again");
  }
}

Judgement agreed_judgement(Communicator& ranks, const Path& checkpoint, Patience& patience) {
  while (true) {
    std::string mine;
    together(ranks, fmt::format("checking {}", checkpoint.string()),
             [&] { mine = encode(see_checkpoint(checkpoint)); });
    std::vector<RankSighting> seen;
    for (const std::string& text : ranks.all_gather(mine)) seen.push_back(decode(text, seen.size()));
    if (const auto judgement = kept_by_nodes(seen)) return *judgement;
    Judgement judgement = combined(seen);
    const std::string& lacking = seen.front().sighting.lacking;
    if (judgement.verdict == Verdict::sound && !lacking.empty()) judgement = {Verdict::damaged, lacking};
    const bool may_pass = judgement.verdict == Verdict::unreadable ||
                          (judgement.verdict == Verdict::damaged && judgement.reason == lacking);
    if (!may_pass) return judgement;
    if (!patience.wait(ranks, checkpoint.string(), fmt::format("{}: {}", checkpoint.string(), judgement.reason))) {
      judgement.reason += fmt::format(" (retried for {:g} s)", patience.limit_s());
      return judgement;
    }
  }
}

}  // namespace lockstep
