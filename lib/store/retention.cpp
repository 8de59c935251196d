#include "store/retention.hpp"

#include "base/error.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/manifest.hpp"
#include "store/trash.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace lockstep {

namespace {

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

struct Measured {
  double cost = 0;          // the metric, so that less is better
  std::string measured_on;  // the document "evaluation"
};

std::optional<Measured> metric_of(const std::optional<Manifest>& manifest, const BestBy& by) {
  if (!manifest) return std::nullopt;
  const auto metric = std::ranges::find(manifest->metrics, by.metric, &Metric::name);
  if (metric == manifest->metrics.end()) return std::nullopt;
  const auto document =
      std::ranges::find(manifest->documents, "evaluation", &std::pair<std::string, std::string>::first);
  return Measured{by.higher.value_or(metric->higher_is_better) ? -metric->value : metric->value,
                  document == manifest->documents.end() ? "" : document->second};
}

/// The metric of those checkpoints whose value may be compared with the newest one: measured on the same samples.
std::function<std::optional<double>(const CheckpointEntry&)> comparable_metric(
    const std::vector<CheckpointEntry>& entries, const Manifests& manifests, const BestBy& by) {
  std::optional<Measured> newest;
  for (auto entry = entries.rbegin(); entry != entries.rend() && !newest; ++entry)
    newest = metric_of(manifests.at(entry->path), by);
  return [by, newest, &manifests](const CheckpointEntry& entry) -> std::optional<double> {
    const std::optional<Measured> metric = metric_of(manifests.at(entry.path), by);
    if (!metric || metric->measured_on != newest->measured_on) return std::nullopt;
    return metric->cost;
  };
}

// A file that is missing is damage here: this process and its ranks have just written beside it.
Verdict verdict_on(const CheckpointEntry& entry) {
  const Sighting seen = see_checkpoint(entry.path);
  if (seen.judgement.verdict != Verdict::sound || seen.lacking.empty()) return seen.judgement.verdict;
  return Verdict::damaged;
}

std::vector<Candidate> candidates_of(const Path& run, const BestBy& by,
                                     const std::function<Verdict(const CheckpointEntry&)>& verdict) {
  std::vector<Candidate> candidates;
  std::vector<CheckpointEntry> known;
  Manifests manifests;
  for (const CheckpointEntry& entry : list_checkpoints(run)) {
    Candidate candidate{entry, verdict(entry)};
    try {
      if (candidate.verdict == Verdict::sound) manifests[entry.path] = manifest_unless_damaged(entry);
    } catch (const Error& error) {  // since it was looked at
      candidate.verdict = judgement_of(error).verdict;
    }
    if (candidate.verdict == Verdict::sound) known.push_back(entry);
    candidates.push_back(std::move(candidate));
  }
  const auto value_of = comparable_metric(known, manifests, by);
  for (Candidate& candidate : candidates)
    if (candidate.verdict == Verdict::sound) candidate.metric = value_of(candidate.entry);
  return candidates;
}

}  // namespace

std::vector<CheckpointEntry> best_first(const std::vector<CheckpointEntry>& entries, const BestBy& by) {
  Manifests manifests;
  for (const CheckpointEntry& entry : entries) manifests[entry.path] = manifest_unless_damaged(entry);
  const auto value_of = comparable_metric(entries, manifests, by);
  std::vector<std::pair<double, CheckpointEntry>> values;
  for (const CheckpointEntry& entry : entries) {
    if (const auto value = value_of(entry)) values.emplace_back(*value, entry);
  }
  std::stable_sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<CheckpointEntry> result;
  for (const auto& [value, entry] : values) result.push_back(entry);
  return result;
}

std::vector<CheckpointEntry> superfluous(std::span<const Candidate> candidates, const Retention& retention) {
  std::vector<const Candidate*> sound, measured;
  for (const Candidate& candidate : candidates) {
    if (candidate.verdict != Verdict::sound) continue;
    sound.push_back(&candidate);
    if (candidate.metric) measured.push_back(&candidate);
  }
  const auto last = static_cast<std::size_t>(std::max<std::int64_t>(retention.keep_last, 1));
  if (sound.size() <= last) return {};
  const std::int64_t oldest_of_last = sound[sound.size() - last]->entry.step;
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Candidate* a, const Candidate* b) { return *a->metric < *b->metric; });
  measured.resize(std::min(measured.size(), static_cast<std::size_t>(std::max<std::int64_t>(retention.keep_best, 0))));

  std::vector<CheckpointEntry> victims;
  for (const Candidate& candidate : candidates) {
    const std::int64_t step = candidate.entry.step;
    const bool known = candidate.verdict == Verdict::sound || candidate.verdict == Verdict::damaged;
    const bool kept = step >= oldest_of_last || std::ranges::find(measured, &candidate) != measured.end() ||
                      (retention.keep_every && step % *retention.keep_every == 0) ||
                      std::ranges::find(retention.pinned, step) != retention.pinned.end();
    if (known && !kept) victims.push_back(candidate.entry);
  }
  return victims;
}

std::vector<CheckpointEntry> victims_of(const Path& run, const Retention& retention,
                                        const std::function<Verdict(const CheckpointEntry&)>& verdict) {
  return superfluous(candidates_of(run, retention.best_by, verdict), retention);
}

Retired retire(const Path& run, const Retention& retention) {
  Retired retired;
  for (const CheckpointEntry& victim : victims_of(run, retention, verdict_on)) {
    try {
      publish_rename(victim.path, trash_name(victim.path));
      retired.steps.push_back(victim.step);
    } catch (const Error& error) {
      retired.problem = error.what();
    }
  }
  return retired;
}

}  // namespace lockstep
