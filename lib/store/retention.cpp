#include "store/retention.hpp"

#include "base/error.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/manifest.hpp"
#include "store/trash.hpp"

#include <algorithm>
#include <functional>
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

std::optional<Measured> measure(const CheckpointEntry& entry, const BestBy& by) {
  const std::optional<Manifest> manifest = manifest_unless_damaged(entry);
  if (!manifest) return std::nullopt;
  const auto metric = std::ranges::find(manifest->metrics, by.metric, &Metric::name);
  if (metric == manifest->metrics.end()) return std::nullopt;
  const auto document =
      std::ranges::find(manifest->documents, "evaluation", &std::pair<std::string, std::string>::first);
  return Measured{by.higher.value_or(metric->higher_is_better) ? -metric->value : metric->value,
                  document == manifest->documents.end() ? "" : document->second};
}

// A file that is missing is damage here: this process and its ranks have just written beside it.
Verdict verdict_on(const CheckpointEntry& entry) {
  const Sighting seen = see_checkpoint(entry.path);
  if (seen.judgement.verdict != Verdict::sound || seen.lacking.empty()) return seen.judgement.verdict;
  return Verdict::damaged;
}

}  // namespace

Rated rate(const CheckpointEntry& entry, Verdict verdict, const BestBy& by) {
  Rated rated{entry, verdict};
  if (verdict != Verdict::sound) return rated;
  try {
    rated.measured = measure(entry, by);
  } catch (const Error& error) {  // since it was looked at
    rated.verdict = judgement_of(error).verdict;
  }
  return rated;
}

std::vector<Candidate> comparable(std::span<const Rated> rated) {
  std::optional<Measured> newest;
  for (const Rated& one : rated)
    if (one.measured) newest = one.measured;
  std::vector<Candidate> candidates;
  for (const Rated& one : rated) {
    Candidate candidate{one.entry, one.verdict};
    if (one.measured && one.measured->measured_on == newest->measured_on) candidate.metric = one.measured->cost;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

std::vector<CheckpointEntry> best_first(const std::vector<CheckpointEntry>& entries, const BestBy& by) {
  std::vector<Rated> rated;
  for (const CheckpointEntry& entry : entries) rated.push_back({entry, Verdict::sound, measure(entry, by)});
  std::vector<Candidate> measured = comparable(rated);
  std::erase_if(measured, [](const Candidate& candidate) { return !candidate.metric; });
  std::ranges::stable_sort(measured, {}, [](const Candidate& candidate) { return *candidate.metric; });
  std::vector<CheckpointEntry> result;
  for (const Candidate& candidate : measured) result.push_back(candidate.entry);
  return result;
}

std::vector<CheckpointEntry> prunable(std::span<const Candidate> candidates, const Retention& retention) {
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

std::vector<CheckpointEntry> prunable_of(const Path& run, const Retention& retention,
                                         const std::function<Verdict(const CheckpointEntry&)>& verdict) {
  std::vector<Rated> rated;
  for (const CheckpointEntry& entry : list_checkpoints(run))
    rated.push_back(rate(entry, verdict(entry), retention.best_by));
  return prunable(comparable(rated), retention);
}

Pruned prune(const Path& run, const Retention& retention) {
  Pruned pruned;
  for (const CheckpointEntry& victim : prunable_of(run, retention, verdict_on)) {
    try {
      publish_rename(victim.path, trash_name(victim.path));
      pruned.steps.push_back(victim.step);
    } catch (const Error& error) {
      pruned.problem = error.what();
    }
  }
  return pruned;
}

}  // namespace lockstep
