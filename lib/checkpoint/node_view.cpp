#include "checkpoint/node_view.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/staging.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep {

namespace {

constexpr char is_held = '+', is_missing = '-';

// What the keepers tell, by number of their storage.
std::vector<std::string> gather_from_keepers(Communicator& ranks, const RunStorage& storage, const std::string& mine) {
  const std::vector<std::string> told = ranks.all_gather(storage.keeps(ranks.rank()) ? mine : std::string());
  std::vector<std::string> result;
  for (const Rank keeper : storage.keepers()) result.push_back(told[static_cast<std::size_t>(keeper)]);
  return result;
}

struct StorageSighting {
  Judgement judgement;
  std::string manifest, files;
};

StorageSighting decode(const std::string& text) {
  const Json json = parse_json(text, "a node's report");
  StorageSighting seen;
  const auto verdict = verdict_of(static_cast<ExitCode>(json.at("code").get<int>()));
  seen.judgement = {verdict.value_or(Verdict::sound), json.at("reason"), json.at("hint")};
  seen.manifest = json.at("manifest");
  seen.files = json.at("files");
  return seen;
}

// "0000012000-UUID" of a staged save whose manifest is written: nothing but its name is still to come.
std::optional<std::string> sealed_name(const Path& path) {
  const std::string name = path.filename().string();
  constexpr std::string_view prefix = ".stage-";
  if (!name.starts_with(prefix)) return std::nullopt;
  try {
    const Manifest manifest = parse_manifest(read_file(path / manifest_file), path.string());
    const std::string found = fmt::format("{:010}-{}", manifest.step, manifest.uuid);
    if (name.substr(prefix.size()) == found) return found;
  } catch (const Error&) {  // not written, or of an older save that another took the place of
  }
  return std::nullopt;
}

std::vector<std::string> published_names(const Path& run) {
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    try {
      const Manifest manifest = parse_manifest(read_file(entry.path / manifest_file), entry.path.string());
      names.push_back(fmt::format("{:010}-{}", manifest.step, manifest.uuid));
    } catch (const Error&) {  // whether it is damaged is for those who load it
    }
  }
  return names;
}

}  // namespace

std::string encode_sighting(const Sighting& sighting) {
  std::string files;
  for (const auto& defect : sighting.defects) files += defect ? is_missing : is_held;
  const Verdict verdict = sighting.judgement.verdict;
  return to_text(Json{{"code", verdict == Verdict::sound ? 0 : static_cast<int>(code_of(verdict))},
                      {"reason", sighting.judgement.reason},
                      {"hint", sighting.judgement.hint},
                      {"manifest", sighting.manifest},
                      {"files", files}});
}

// Parts of one save are told from those of another by the manifest that lies beside them.
NodesSighting combine_sightings(std::span<const std::string> told, std::span<const std::string> names) {
  std::vector<StorageSighting> seen;
  for (const std::string& text : told) seen.push_back(decode(text));
  NodesSighting result;
  for (const Verdict verdict : {Verdict::unreadable, Verdict::foreign}) {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i].judgement.verdict != verdict) continue;
      result.judgement = seen[i].judgement;
      result.judgement.reason = fmt::format("{}: {}", names[i], seen[i].judgement.reason);
      return result;
    }
  }
  std::map<std::string, std::vector<std::size_t>> by_manifest;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i].judgement.verdict == Verdict::sound && !seen[i].files.empty())
      by_manifest[seen[i].manifest].push_back(i);
  for (const auto& [manifest, storages] : by_manifest) {
    std::vector<std::vector<std::size_t>> of_file(seen[storages.front()].files.size());
    std::optional<std::size_t> lacking;
    for (std::size_t file = 0; file < of_file.size(); ++file) {
      for (const std::size_t storage : storages)
        if (seen[storage].files[file] == is_held) of_file[file].push_back(storage);
      if (of_file[file].empty() && !lacking) lacking = file;
    }
    const bool is_better = !lacking || result.have_it.empty() || storages.size() > result.have_it.size();
    if (is_better) {
      result.have_it = storages;
      result.storages_of_file = std::move(of_file);
      result.lacking = lacking;
    }
    if (!lacking) return result;
  }
  result.judgement.verdict = Verdict::damaged;
  std::vector<std::string> reasons;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i].judgement.verdict == Verdict::damaged)
      reasons.push_back(fmt::format("{}: {}", names[i], seen[i].judgement.reason));
  result.judgement.reason = join(reasons, "; ");
  return result;
}

std::vector<CheckpointEntry> list_on_nodes(Communicator& ranks, const RunStorage& storage, const Path& run,
                                           Patience& patience) {
  const std::string what = fmt::format("looking for checkpoints of {}", run.string());
  std::string mine;
  while (true) {
    try {
      together(ranks, what, [&] {
        Json steps = Json::array();
        for (const CheckpointEntry& entry : list_checkpoints(run)) steps.push_back(entry.step);
        mine = to_text(steps);
      });
      break;
    } catch (const AgreedError& error) {
      if (error.code() != code_of(Verdict::unreadable) || !patience.wait(ranks, run.string(), error.what())) throw;
    }
  }
  std::set<std::int64_t> steps;
  for (const std::string& text : gather_from_keepers(ranks, storage, mine))
    for (const Json& step : parse_json(text, "the checkpoints of a node")) steps.insert(step.get<std::int64_t>());
  std::vector<CheckpointEntry> entries;
  for (const std::int64_t step : steps) entries.push_back({checkpoint_folder(run, step), step});
  return entries;
}

NodesJudgement judge_on_nodes(Communicator& ranks, const RunStorage& storage, const Path& checkpoint,
                              Patience& patience) {
  const std::vector<Rank> keepers = storage.keepers();
  while (true) {
    Sighting mine;
    std::string told;
    together(ranks, fmt::format("checking {}", checkpoint.string()), [&] {
      if (!storage.keeps(ranks.rank())) return;
      mine = see_checkpoint(checkpoint);
      told = encode_sighting(mine);
    });
    NodesSighting seen = combine_sightings(gather_from_keepers(ranks, storage, told), storage.nodes);
    Judgement& judgement = seen.judgement;
    if (judgement.verdict == Verdict::sound) {
      FileAccess access{keepers[seen.have_it.front()], {}};
      const auto is_everywhere = [&](const auto& storages) { return storages.size() == keepers.size(); };
      if (std::ranges::all_of(seen.storages_of_file, is_everywhere)) return {{}, std::move(access)};
      for (const std::vector<std::size_t>& storages : seen.storages_of_file) {
        access.readers.emplace_back();
        for (std::size_t rank = 0; rank < storage.of_rank.size(); ++rank)
          if (std::ranges::binary_search(storages, static_cast<std::size_t>(storage.of_rank[rank])))
            access.readers.back().push_back(static_cast<Rank>(rank));
      }
      return {{}, std::move(access)};
    }
    bool may_pass = judgement.verdict == Verdict::unreadable;
    if (seen.lacking) {
      const Rank teller = keepers[seen.have_it.front()];
      const std::string defect = ranks.rank() == teller ? mine.defects[*seen.lacking].value_or("") : "";
      judgement.reason =
          fmt::format("{}{}{}; searched by {}, each on its own storage", judgement.reason,
                      judgement.reason.empty() ? "" : "; ", ranks.broadcast(defect, teller), join(storage.nodes, ", "));
      may_pass = true;
    } else if (judgement.verdict == Verdict::damaged && judgement.reason.empty()) {
      judgement.reason = fmt::format("{} or {} is missing on {}", manifest_file, index_file, join(storage.nodes, ", "));
      may_pass = true;
    }
    if (!may_pass) return {judgement, {}};
    if (!patience.wait(ranks, checkpoint.string(), fmt::format("{}: {}", checkpoint.string(), judgement.reason))) {
      judgement.reason += fmt::format(" (retried for {:g} s)", patience.limit_s());
      return {judgement, {}};
    }
  }
}

std::vector<Path> finish_publications(Communicator& ranks, const RunStorage& storage, const Path& run) {
  std::map<std::string, Path> sealed;
  std::string mine;
  const std::string what = fmt::format("finishing an interrupted save of {}", run.string());
  together(ranks, what, [&] {
    if (!storage.keeps(ranks.rank()) || !is_there(checkpoints_folder(run))) return;
    for (const Path& path : list_folder(checkpoints_folder(run)))
      if (const auto name = sealed_name(path)) sealed[*name] = path;
    mine = join(published_names(run), " ");
  });
  std::set<std::string> published;
  for (const std::string& text : gather_from_keepers(ranks, storage, mine)) {
    const std::vector<std::string> names = split(text, ' ');
    published.insert(names.begin(), names.end());
  }
  std::vector<Path> taken_in;
  together(ranks, what, [&] {
    for (const auto& [name, path] : sealed) {
      if (!published.contains(name)) continue;
      const Path checkpoint = checkpoint_folder(run, std::stoll(name));
      discard_displaced(publish_checkpoint(path, checkpoint));
      taken_in.push_back(checkpoint);
    }
  });
  return taken_in;
}

void require_own_storage(Communicator& ranks, const RunStorage& storage, const Path& run, const std::string& asked,
                         const std::string& hint) {
  const std::string what = "checking whether nodes have their own storage";
  const std::string token = run_on_rank0(ranks, what, make_uuid);
  const auto name = [&](Rank rank) { return run / fmt::format(".storage-{}-{}", token, rank); };
  const bool keeps = storage.keeps(ranks.rank());
  together(ranks, what, [&] {
    if (!keeps) return;
    make_folder(run);
    publish_file(name(ranks.rank()), "");
  });
  std::string seen;
  const auto look = [&] {
    for (const Rank other : storage.keepers())
      if (keeps && other != ranks.rank() && is_there(name(other)) && seen.empty())
        seen = fmt::format("{} and {}", storage.node_of(ranks.rank()), storage.node_of(other));
  };
  const auto tidy = [&] {
    if (keeps) remove_tree(name(ranks.rank()));
  };
  together(ranks, what, look);
  together(ranks, what, tidy);
  for (const std::string& pair : gather_from_keepers(ranks, storage, seen))
    if (!pair.empty())
      throw AgreedError(
          Error(ExitCode::usage, fmt::format("{}, but {} see the same folder at {}", asked, pair, run.string()), hint),
          0);
}

}  // namespace lockstep
