#include "store/run_directory.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "store/staging.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace lockstep {

namespace {

constexpr std::string_view step_prefix = "step-";

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<Path> names_in(const Path& folder) { return is_there(folder) ? list_folder(folder) : std::vector<Path>(); }

// The manifest of a checkpoint; nothing if it is damaged. Throws if that is not known.
std::optional<Manifest> manifest_unless_damaged(const CheckpointEntry& entry) {
  try {
    return read_manifest(entry.path);
  } catch (const Error& error) {
    if (judgement_of(error).verdict != Verdict::damaged) throw;
    return std::nullopt;
  }
}

// The manifests of checkpoints by their folders; those that are damaged have none.
using Manifests = std::map<Path, std::optional<Manifest>>;

struct Metric {
  double value = 0;
  std::string measured_on;  // the document "evaluation"
};

std::optional<Metric> metric_of(const std::optional<Manifest>& manifest, const std::string& name) {
  if (!manifest) return std::nullopt;
  const auto metric = std::ranges::find(manifest->metrics, name, &std::pair<std::string, double>::first);
  if (metric == manifest->metrics.end()) return std::nullopt;
  const auto document =
      std::ranges::find(manifest->documents, "evaluation", &std::pair<std::string, std::string>::first);
  return Metric{metric->second, document == manifest->documents.end() ? "" : document->second};
}

/// The metric of those checkpoints whose value may be compared with the newest one: measured on the same samples.
std::function<std::optional<double>(const CheckpointEntry&)> comparable_metric(
    const std::vector<CheckpointEntry>& entries, const Manifests& manifests, const std::string& name) {
  std::optional<Metric> newest;
  for (auto entry = entries.rbegin(); entry != entries.rend() && !newest; ++entry)
    newest = metric_of(manifests.at(entry->path), name);
  return [name, newest, &manifests](const CheckpointEntry& entry) -> std::optional<double> {
    const std::optional<Metric> metric = metric_of(manifests.at(entry.path), name);
    if (!metric || metric->measured_on != newest->measured_on) return std::nullopt;
    return metric->value;
  };
}

[[noreturn]] void refuse(const Path& checkpoint, const Judgement& judgement) {
  throw Error(
      code_of(judgement.verdict),
      fmt::format("the checkpoint {} is {}: {}", checkpoint.string(), name_of(judgement.verdict), judgement.reason),
      judgement.hint);
}

}  // namespace

Path checkpoints_folder(const Path& run) { return run / "checkpoints"; }
Path checkpoint_folder(const Path& run, std::int64_t step) {
  return checkpoints_folder(run) / fmt::format("{}{:010}", step_prefix, step);
}
Path staging_folder(const Path& run, std::int64_t step, const std::string& uuid) {
  return checkpoints_folder(run) / fmt::format(".stage-{:010}-{}", step, uuid);
}

std::optional<std::int64_t> step_of(const Path& checkpoint) {
  const std::string name = checkpoint.filename().string();
  return name.starts_with(step_prefix) ? parse_number(std::string_view(name).substr(step_prefix.size())) : std::nullopt;
}

std::vector<CheckpointEntry> list_checkpoints(const Path& run) {
  std::vector<CheckpointEntry> entries;
  for (const Path& path : names_in(checkpoints_folder(run))) {
    if (const auto step = step_of(path)) entries.push_back({path, *step});
  }
  std::sort(entries.begin(), entries.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step < b.step; });
  return entries;
}

std::vector<CheckpointEntry> newest_first(std::vector<CheckpointEntry> entries) {
  std::reverse(entries.begin(), entries.end());
  return entries;
}

std::vector<CheckpointEntry> best_first(const std::vector<CheckpointEntry>& entries, const std::string& metric) {
  Manifests manifests;
  for (const CheckpointEntry& entry : entries) manifests[entry.path] = manifest_unless_damaged(entry);
  const auto value_of = comparable_metric(entries, manifests, metric);
  std::vector<std::pair<double, CheckpointEntry>> values;
  for (const CheckpointEntry& entry : entries) {
    if (const auto value = value_of(entry)) values.emplace_back(*value, entry);
  }
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CheckpointEntry> result;
  for (const auto& [value, entry] : values) result.push_back(entry);
  return result;
}

std::string to_text(const PassedOver& passed) {
  return fmt::format("{}: {}", passed.checkpoint.path.string(), passed.reason);
}

Found first_sound(const std::vector<CheckpointEntry>& candidates, const Judge& judge) {
  Found found;
  for (const CheckpointEntry& entry : candidates) {
    const Judgement judgement = judge(entry.path);
    switch (judgement.verdict) {
      case Verdict::sound: found.checkpoint = entry; return found;
      case Verdict::damaged: found.damaged.push_back({entry, judgement.reason}); break;
      case Verdict::unreadable:
      case Verdict::foreign: refuse(entry.path, judgement);
    }
  }
  return found;
}

Found find_at(const Path& path, const Judge& judge) {
  if (is_there(path / manifest_file)) {
    const Judgement judgement = judge(path);
    if (judgement.verdict != Verdict::sound) refuse(path, judgement);
    return {CheckpointEntry{path, read_manifest(path).step}, {}};
  }
  Found found = first_sound(newest_first(list_checkpoints(path)), judge);
  if (!found.checkpoint) {
    std::vector<std::string> reasons{
        fmt::format("{} is neither a checkpoint (no {}) nor a run with a sound one", path.string(), manifest_file)};
    for (const PassedOver& passed : found.damaged) reasons.push_back(to_text(passed));
    fail(ExitCode::input, "{}", join(reasons, "; "));
  }
  return found;
}

std::optional<std::int64_t> step_within(const Path& checkpoint, const Path& run) {
  std::error_code ignored;  // what cannot be looked at is of no run
  const Path real = std::filesystem::canonical(checkpoint, ignored);
  const bool within =
      !real.empty() && std::filesystem::equivalent(real.parent_path(), checkpoints_folder(run), ignored);
  return within ? step_of(real) : std::nullopt;
}

Path put_aside(const Path& checkpoint) {
  const std::string name = fmt::format(".failed-{}", checkpoint.filename().string());
  for (int number = 1;; ++number) {
    const Path aside = checkpoint.parent_path() / (number == 1 ? name : fmt::format("{}-{}", name, number));
    if (kind_of_name(aside) != FileKind::nothing) continue;  // an older one of this name stays too
    publish_rename(checkpoint, aside);
    return aside;
  }
}

std::vector<Path> list_put_aside(const Path& run) {
  std::vector<Path> found = names_in(checkpoints_folder(run));
  std::erase_if(found, [](const Path& path) { return !path.filename().string().starts_with(".failed-"); });
  return found;
}

std::vector<CheckpointEntry> prunable(const std::vector<CheckpointEntry>& entries, const Retention& retention,
                                      const std::function<bool(const CheckpointEntry&)>& sound,
                                      const std::function<std::optional<double>(const CheckpointEntry&)>& metric) {
  const std::size_t keep = static_cast<std::size_t>(std::max<std::int64_t>(retention.keep_last, 1));
  std::optional<std::size_t> newest_sound;
  std::optional<std::size_t> best;
  double least = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (sound(entries[i])) newest_sound = i;
    const auto value = metric(entries[i]);
    if (!value || (best && *value >= least)) continue;
    best = i;
    least = *value;
  }
  std::vector<CheckpointEntry> victims;
  for (std::size_t i = 0; i + keep < entries.size(); ++i) {
    const bool pinned =
        std::find(retention.pinned.begin(), retention.pinned.end(), entries[i].step) != retention.pinned.end();
    if (!pinned && i != newest_sound && i != best) victims.push_back(entries[i]);
  }
  return victims;
}

std::vector<std::int64_t> prune(const Path& run, const Retention& retention) {
  const Path folder = checkpoints_folder(run);
  std::vector<CheckpointEntry> known;
  Manifests manifests;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    try {
      manifests[entry.path] = manifest_unless_damaged(entry);
      known.push_back(entry);
    } catch (const Error&) {  // unreadable or foreign: it may be the best, so it stays
    }
  }
  const auto sound = [&](const CheckpointEntry& entry) { return manifests.at(entry.path).has_value(); };
  const auto metric = comparable_metric(known, manifests, retention.best_metric);
  std::vector<std::int64_t> removed;
  for (const CheckpointEntry& victim : prunable(known, retention, sound, metric)) {
    publish_rename(victim.path, folder / fmt::format(".trash-{}-{}", victim.path.filename().string(), make_uuid()));
    removed.push_back(victim.step);
  }
  sweep(run);
  return removed;
}

void sweep(const Path& run) {
  for (const Path& path : names_in(checkpoints_folder(run))) {
    const std::string name = path.filename().string();
    if (name.starts_with(".trash-") || name.starts_with(".stage-")) remove_tree(path);
  }
}

void advise_latest(const Path& run, std::int64_t step) {
  publish_file(checkpoints_folder(run) / "LATEST", checkpoint_folder(run, step).filename().string() + "\n");
}

FileLock lock_run(const Path& run) {
  make_folder(run);
  return {run / "lock", fmt::format("the run folder {} is in use", run.string()),
          "wait for that job, stop it, or choose another run folder"};
}

}  // namespace lockstep
