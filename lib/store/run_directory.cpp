#include "store/run_directory.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "store/staging.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

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

struct Metric {
  double value = 0;
  std::string measured_on;  // the document "evaluation"
};

std::optional<Metric> metric_of(const CheckpointEntry& entry, const std::string& name) {
  try {
    const Manifest manifest = read_manifest(entry.path);
    const auto metric = std::ranges::find(manifest.metrics, name, &std::pair<std::string, double>::first);
    if (metric == manifest.metrics.end()) return std::nullopt;
    const auto document =
        std::ranges::find(manifest.documents, "evaluation", &std::pair<std::string, std::string>::first);
    return Metric{metric->second, document == manifest.documents.end() ? "" : document->second};
  } catch (const Error&) {  // damaged: it has no metric; who asks for soundness is told separately
    return std::nullopt;
  }
}

/// The metric of those checkpoints whose value may be compared with the newest one: measured on the same samples.
std::function<std::optional<double>(const CheckpointEntry&)> comparable_metric(
    const std::vector<CheckpointEntry>& entries, const std::string& name) {
  std::optional<Metric> newest;
  for (auto entry = entries.rbegin(); entry != entries.rend() && !newest; ++entry) newest = metric_of(*entry, name);
  return [name, newest](const CheckpointEntry& entry) -> std::optional<double> {
    const std::optional<Metric> metric = metric_of(entry, name);
    if (!metric || metric->measured_on != newest->measured_on) return std::nullopt;
    return metric->value;
  };
}

bool has_sound_manifest(const CheckpointEntry& entry) {
  try {
    read_manifest(entry.path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The named checkpoint, which must be sound.
Found exactly(const CheckpointEntry& entry, const std::function<std::optional<std::string>(const Path&)>& defect) {
  if (const auto reason = defect(entry.path))
    fail(ExitCode::input, "the checkpoint {} cannot be used: {}", entry.path.string(), *reason);
  return {entry, {}};
}

Found best_of(const Path& run, const std::string& metric,
              const std::function<std::optional<std::string>(const Path&)>& defect) {
  Found found;
  double least = 0;
  const std::vector<CheckpointEntry> entries = list_checkpoints(run);
  const auto metric_of_entry = comparable_metric(entries, metric);
  for (const CheckpointEntry& entry : entries) {
    const auto value = metric_of_entry(entry);
    if (!value || (found.checkpoint && *value >= least)) continue;
    if (const auto reason = defect(entry.path)) {
      found.rejected.push_back(fmt::format("{}: {}", entry.path.string(), *reason));
      continue;
    }
    found.checkpoint = entry;
    least = *value;
  }
  if (!found.checkpoint) fail(ExitCode::input, "{} has no sound checkpoint with the metric {}", run.string(), metric);
  return found;
}

std::string read_holder(const FileDescriptor& file) {
  std::array<char, 256> text{};
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), 0);
  return got <= 0 ? "another process" : std::string(trim(std::string_view(text.data(), static_cast<std::size_t>(got))));
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

Found find_latest(const Path& run, const std::function<std::optional<std::string>(const Path&)>& defect) {
  Found found;
  const std::vector<CheckpointEntry> entries = list_checkpoints(run);
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const auto reason = defect(entry->path);
    if (!reason) {
      found.checkpoint = *entry;
      return found;
    }
    found.rejected.push_back(fmt::format("{}: {}", entry->path.string(), *reason));
  }
  return found;
}

Found find_checkpoint(const Path& run, const std::string& which, const std::string& metric,
                      const std::function<std::optional<std::string>(const Path&)>& defect) {
  if (which == "latest") return find_latest(run, defect);
  if (which == "best") return best_of(run, metric, defect);
  if (const auto step = parse_number(which)) {
    const Path path = checkpoint_folder(run, *step);
    if (is_there(path)) return exactly({path, *step}, defect);
    std::vector<std::string> steps;
    for (const CheckpointEntry& entry : list_checkpoints(run)) steps.push_back(fmt::format("{}", entry.step));
    throw Error(ExitCode::input, fmt::format("{} has no checkpoint of step {}", run.string(), *step),
                steps.empty() ? "it has none at all" : fmt::format("it has {}", join(steps, ", ")));
  }
  return find_at(which, defect);
}

Found find_at(const Path& path, const std::function<std::optional<std::string>(const Path&)>& defect) {
  if (is_there(path / manifest_file)) {
    Found found = exactly({path, 0}, defect);
    found.checkpoint->step = read_manifest(path).step;
    return found;
  }
  Found found = find_latest(path, defect);
  if (!found.checkpoint) {
    fail(ExitCode::input, "{} is neither a checkpoint (no {}) nor a run with a sound one{}", path.string(),
         manifest_file, found.rejected.empty() ? "" : "; " + join(found.rejected, "; "));
  }
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
  const std::vector<CheckpointEntry> entries = list_checkpoints(run);
  const auto metric = comparable_metric(entries, retention.best_metric);
  std::vector<std::int64_t> removed;
  for (const CheckpointEntry& victim : prunable(entries, retention, has_sound_manifest, metric)) {
    publish_rename(victim.path, folder / fmt::format(".trash-{}-{}", victim.path.filename().string(), make_uuid()));
    removed.push_back(victim.step);
  }
  sweep(run);
  return removed;
}

void sweep(const Path& run) {
  std::vector<Path> failed;
  for (const Path& path : names_in(checkpoints_folder(run))) {
    const std::string name = path.filename().string();
    if (name.starts_with(".trash-") || name.starts_with(".stage-")) remove_tree(path);
    if (name.starts_with(".failed-")) failed.push_back(path);
  }
  for (std::size_t i = 0; i + 1 < failed.size(); ++i) remove_tree(failed[i]);
}

void advise_latest(const Path& run, std::int64_t step) {
  publish_file(checkpoints_folder(run) / "LATEST", checkpoint_folder(run, step).filename().string() + "\n");
}

RunLock::RunLock(const Path& run) {
  make_folder(run);
  const Path path = run / "lock";
  file_ = open_file(path, O_RDWR | O_CREAT);
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail_errno("lock", path);
    throw Error(ExitCode::usage, fmt::format("the run folder {} is in use by {}", run.string(), read_holder(file_)),
                "wait for that job, stop it, or choose another run folder");
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string holder = fmt::format("process {} on {} since {}\n", ::getpid(), host.data(), utc_now());
  if (::ftruncate(file_.get(), 0) != 0) fail_errno("write", path);
  write_at(file_, std::as_bytes(std::span(holder)), 0, path);
}

}  // namespace lockstep
